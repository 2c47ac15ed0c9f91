// SPDX-License-Identifier: MIT
// The loaded models in OpenAI's form, with the facts that the gRPC API gives.
#include <utility>

#include "base/strings.h"
#include "mnemon/v1/models.pb.h"
#include "server/gateway/jobs.h"
#include "server/gateway/message_json.h"
#include "server/gateway/openai_fields.h"

namespace mnemon {
namespace {

using google::protobuf::Message;
using nlohmann::json;

class ModelsCall final : public ApiCall {
 public:
  ModelsCall(std::string name, GatewayShared& shared,
             std::shared_ptr<HttpExchange> exchange)
      : ApiCall(shared, std::move(exchange), nullptr), name_(std::move(name)) {}

 private:
  void Run() override {
    if (!name_.empty()) {
      v1::GetModelRequest request;
      request.set_name(StrCat("models/", name_));
      return Call("/mnemon.v1.Models/GetModel", request, std::make_unique<v1::Model>(),
                  [this](const absl::Status& status, const Message& reply) {
                    if (!status.ok()) return Fail(status);
                    Reply(ModelJson(reply));
                  });
    }
    Call("/mnemon.v1.Models/ListModels", v1::ListModelsRequest(),
         std::make_unique<v1::ListModelsResponse>(),
         [this](const absl::Status& status, const Message& reply) {
           if (!status.ok()) return Fail(status);
           json models = json::array();
           for (const v1::Model& model :
                dynamic_cast<const v1::ListModelsResponse&>(reply).models()) {
             models.push_back(ModelJson(model));
           }
           Reply({{"object", "list"}, {"data", std::move(models)}});
         });
  }

  json ModelJson(const Message& model) {
    json facts = ToJson(model);
    return {{"id", ModelName(facts["name"].get<std::string>())},
            {"object", "model"},
            {"created", shared().start_time},
            {"owned_by", "mnemon"},
            {"mnemon", std::move(facts)}};
  }

  const std::string name_;
};

}  // namespace

std::shared_ptr<ApiCall> MakeModels(const std::string& name, GatewayShared& shared,
                                    std::shared_ptr<HttpExchange> exchange) {
  return std::make_shared<ModelsCall>(name, shared, std::move(exchange));
}

}  // namespace mnemon
