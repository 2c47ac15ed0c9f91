// SPDX-License-Identifier: MIT
// Messages of clients about a full context.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/client.h"

namespace mnemon::client {

// The finish reason, and the reason of the error for a prompt beyond the limit.
inline constexpr char kContextLimit[] = "CONTEXT_LIMIT";

// A loaded model; nullopt if it is not loaded, or the server does not answer.
std::optional<ModelSummary> FindModel(Client& client, const std::string& model);
// Context of a loaded model, in tokens; nullopt if unlimited or unknown.
std::optional<int64_t> ContextLimitOf(Client& client, const std::string& model);
// "the context of 48 tokens is full (40 before, prompt 3, generated 6)", for a result
// that ended with kContextLimit. The last generated token is not part of the context.
std::string DescribeContextLimit(Client& client, const GenerateResult& result);

}  // namespace mnemon::client
