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
      return Call(kGetModel, std::move(request),
                  [this](const absl::Status& status, const v1::Model& reply) {
                    if (!status.ok()) return Fail(status);
                    Reply(ModelJson(reply));
                  });
    }
    Call(kListModels, v1::ListModelsRequest(),
         [this](const absl::Status& status, const v1::ListModelsResponse& reply) {
           if (!status.ok()) return Fail(status);
           json models = json::array();
           for (const v1::Model& model : reply.models()) {
             models.push_back(ModelJson(model));
           }
           Reply({{"object", "list"}, {"data", std::move(models)}});
         });
  }

  json ModelJson(const v1::Model& model) {
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
