// SPDX-License-Identifier: MIT
// Errors that several parts of the engine return. See engine.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace mnemon::engine_errors {

absl::Status NotFound(const std::string& session);
absl::Status SessionExpired(const std::string& session);
absl::Status SessionExists(const std::string& session);
// The request_id created another session, whose id is in the metadata "session".
absl::Status RequestIdReused(const std::string& session);
absl::Status RequestRepeated(const std::string& session);
// The newest request_id of the session belongs to another request.
absl::Status RequestDiffers(const std::string& session);
// A resume of a call that the session does not remember.
absl::Status RequestUnknown(const std::string& session);
absl::Status StreamResumed();
// A resume after the index `after`, which must be from `first` to `last`, or -1.
absl::Status IndexOutOfRange(int64_t after, int64_t first, int64_t last);
absl::Status TokenCountMismatch(const std::string& session, int64_t expected,
                                int64_t tokens);
absl::Status EtagMismatch(const std::string& session);
// The stored session is damaged; its history is intact up to `whole_tokens`.
absl::Status SessionDamaged(const std::string& session, int64_t whole_tokens);
absl::Status CheckpointDamaged(const std::string& session, const std::string& id);
absl::Status NoStore();
// The store has a session with this id whose model is not loaded.
absl::Status SessionOfOtherModel(const std::string& session, const std::string& model);
absl::Status CheckpointExists(const std::string& session, const std::string& id);
absl::Status CheckpointNotFound(const std::string& session, const std::string& id);
absl::Status CheckpointLimit(const std::string& session, size_t most);
// Exports, imports and verifications at once.
absl::Status TransferLimit(int32_t transfers);
// A position beyond the history, or beyond its committed part.
absl::Status BeyondHistory(int64_t position, int64_t tokens,
                           const char* field = "token_count");
absl::Status SessionPaused(const std::string& session);
// While a call was on it.
absl::Status SessionDeleted();
// An estimate of the time until there is room; zero: unknown.
using Wait = std::chrono::duration<double>;
// `wait`: until a session expires.
absl::Status SessionLimit(int32_t sessions, Wait wait);
// `wait`: until the call that runs on it ends.
absl::Status SessionBusy(const std::string& session, Wait wait);
absl::Status QueueFull(int64_t queued, Wait wait);
// The call would end after its deadline; `wait`: until it could begin.
absl::Status DeadlineUnreachable(Wait wait);
// States have used up their memory; without `wait` a retry does not help.
absl::Status NoFreeBlocks(std::optional<Wait> wait);
bool IsNoFreeBlocks(const absl::Status& status);
bool IsRetryableNoFreeBlocks(const absl::Status& status);
// `error` of a call after its admission, with whether its prompt was `taken` into the
// history. A retry helps only if it was not, or if the same request `resumes`.
absl::Status WithPromptTaken(const absl::Status& error, bool taken, bool resumes);
absl::Status MemoryLimit();
// The memory share of sessions and checkpoints, `bytes`, is used up.
absl::Status SessionMemory(int64_t bytes);
absl::Status CallerIdle(std::chrono::milliseconds idle);
// `error` of the model; `session`, unless empty, keeps its state of before the call.
absl::Status NonFiniteState(const absl::Status& error, const std::string& session);
// A history of `tokens` and a prompt of `prompt` tokens exceed the context.
absl::Status ContextLimit(int64_t tokens, int64_t prompt, int64_t context);
// A call that this kind of model does not support; `does` names what it does instead.
absl::Status WrongKind(const std::string& model, const std::string& does);
// New work during a drain, and a call that was open when its grace period ended.
absl::Status Draining();
absl::Status GraceOver();
// In time, or before the engine ended; whether a change was made is unknown.
absl::Status NoAnswer();
bool IsNoAnswer(const absl::Status& status);
// The consumer cancelled the call. Has no message when memory has run out.
absl::Status Cancelled() noexcept;

}  // namespace mnemon::engine_errors
