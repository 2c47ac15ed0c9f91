// SPDX-License-Identifier: MIT
#include "client/terminal/context_limit.h"

#include "base/strings.h"

namespace mnemon::client {

std::optional<ModelSummary> FindModel(Client& client, const std::string& model) {
  const auto models = client.ListModels();
  if (!models.ok()) return std::nullopt;
  for (const ModelSummary& one : *models) {
    if (one.name == model) return one;
  }
  return std::nullopt;
}

std::optional<int64_t> ContextLimitOf(Client& client, const std::string& model) {
  const std::optional<ModelSummary> found = FindModel(client, model);
  return found ? found->context_limit : std::nullopt;
}

std::string DescribeContextLimit(Client& client, const GenerateResult& result) {
  const std::optional<int64_t> limit = ContextLimitOf(client, result.model);
  const int64_t before =
      result.history_tokens - result.prompt_tokens - result.generated_tokens;
  return StrCat("the context", limit ? StrCat(" of ", *limit, " tokens") : "",
                " is full (", before, " before, prompt ", result.prompt_tokens,
                ", generated ", result.generated_tokens, ")");
}

}  // namespace mnemon::client
