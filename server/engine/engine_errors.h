// SPDX-License-Identifier: MIT
// Errors that several files of the engine return. See engine.h.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace mnemon::engine_errors {

absl::Status NotFound(const std::string& session);
absl::Status SessionExpired(const std::string& session);
absl::Status SessionExists(const std::string& session);
// A session that the request would not make was made by the same request_id.
absl::Status RequestIdReused(const std::string& session);
// The session has taken this request before.
absl::Status RequestRepeated(const std::string& session);
absl::Status SessionBusy(const std::string& session);
absl::Status SessionLimit(int32_t sessions);
absl::Status QueueFull(int64_t queued);
// A history of `tokens` and a prompt of `prompt` more do not fit.
absl::Status ContextLimit(int64_t tokens, int64_t prompt, int64_t context);
// A call that this kind of model does not take; `does` says what it does instead.
absl::Status WrongKind(const std::string& model, const std::string& does);
absl::Status Draining();
absl::Status OutOfMemory();

}  // namespace mnemon::engine_errors
