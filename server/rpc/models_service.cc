// SPDX-License-Identifier: MIT
#include "base/error.h"
#include "base/status_macros.h"
#include "mnemon/v1/models.grpc.pb.h"
#include "server/rpc/call_context.h"
#include "server/rpc/guard.h"
#include "server/rpc/messages.h"
#include "server/rpc/resource_name.h"
#include "server/rpc/services.h"

namespace mnemon {
namespace {

using Context = grpc::CallbackServerContext;

class ModelsService final : public v1::Models::CallbackService {
 public:
  explicit ModelsService(const Engine& engine) : engine_(engine) {}

  grpc::ServerUnaryReactor* ListModels(Context* context,
                                       const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override {
    return Answer(context, {}, [&] { return List(*request, *response); });
  }

  grpc::ServerUnaryReactor* GetModel(Context* context,
                                     const v1::GetModelRequest* request,
                                     v1::Model* response) override {
    return Answer(context, {.model = request->name()}, [&]() -> absl::Status {
      MNEMON_ASSIGN_OR_RETURN(std::string name,
                              ParseModelResource(request->name(), "name"));
      CallOf(context)->SetModel(name);
      MNEMON_ASSIGN_OR_RETURN(ModelFacts facts, engine_.GetModel(name));
      ToMessage(facts, *response);
      return absl::OkStatus();
    });
  }

 private:
  // A page token is the name of the last model of the page before.
  absl::Status List(const v1::ListModelsRequest& request,
                    v1::ListModelsResponse& response) {
    if (request.page_size() < 0) {
      return InvalidField("page_size", "page_size must not be negative");
    }
    const std::vector<ModelFacts> models = engine_.ListModels();
    size_t begin = 0;
    if (!request.page_token().empty()) {
      while (begin < models.size() && models[begin].name != request.page_token())
        ++begin;
      if (begin == models.size()) {
        return InvalidField("page_token", "page_token is not one this server gave");
      }
      ++begin;
    }
    const size_t room = request.page_size() == 0
                            ? models.size()
                            : static_cast<size_t>(request.page_size());
    size_t end = std::min(models.size(), begin + room);
    ReserveMore(end - begin, *response.mutable_models());
    for (size_t i = begin; i < end; ++i) ToMessage(models[i], *response.add_models());
    if (end < models.size()) response.set_next_page_token(models[end - 1].name);
    return absl::OkStatus();
  }

  const Engine& engine_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeModelsService(const Engine& engine) {
  return std::make_unique<ModelsService>(engine);
}

}  // namespace mnemon
