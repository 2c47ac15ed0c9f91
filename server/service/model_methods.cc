// SPDX-License-Identifier: MIT
#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/status_macros.h"
#include "server/service/answer.h"
#include "server/service/messages/messages.h"
#include "server/service/messages/resource_name.h"
#include "server/service/unary_methods.h"

namespace mnemon {
namespace {

// A page token is the name of the last model of the page before.
absl::Status PageOf(const std::vector<ModelFacts>& models,
                    const v1::ListModelsRequest& request,
                    v1::ListModelsResponse& response) {
  if (request.page_size() < 0) {
    return InvalidField("page_size", "page_size must not be negative");
  }
  size_t begin = 0;
  if (!request.page_token().empty()) {
    while (begin < models.size() && models[begin].name != request.page_token()) ++begin;
    if (begin == models.size()) {
      return InvalidField("page_token", "page_token is not one this server gave");
    }
    ++begin;
  }
  const size_t room = request.page_size() == 0
                          ? models.size()
                          : static_cast<size_t>(request.page_size());
  const size_t end = std::min(models.size(), begin + room);
  ReserveMore(end - begin, *response.mutable_models());
  for (size_t i = begin; i < end; ++i) ToMessage(models[i], *response.add_models());
  if (end < models.size()) response.set_next_page_token(models[end - 1].name);
  return absl::OkStatus();
}

void ListModels(const CallServices& services, UnaryCaller& caller,
                const v1::ListModelsRequest& request,
                v1::ListModelsResponse& response) {
  AnswerNow(caller, {},
            [&] { return PageOf(services.engine.ListModels(), request, response); });
}

void GetModel(const CallServices& services, UnaryCaller& caller,
              const v1::GetModelRequest& request, v1::Model& response) {
  AnswerNow(caller, {.model = request.name()}, [&]() -> absl::Status {
    MNEMON_ASSIGN_OR_RETURN(const std::string name,
                            ParseModelResource(request.name(), "name"));
    caller.progress().SetModel(name);
    MNEMON_ASSIGN_OR_RETURN(const ModelFacts facts, services.engine.GetModel(name));
    ToMessage(facts, response);
    return absl::OkStatus();
  });
}

}  // namespace

const UnaryMethod<v1::ListModelsRequest, v1::ListModelsResponse> kListModels = {
    "mnemon.v1.Models/ListModels", &ListModels};
const UnaryMethod<v1::GetModelRequest, v1::Model> kGetModel = {
    "mnemon.v1.Models/GetModel", &GetModel};

}  // namespace mnemon
