// SPDX-License-Identifier: MIT
// Errors that several files of the engine return. See engine.h.
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
// The request_id has created a session that differs from the requested one; the
// metadata "session" is its id.
absl::Status RequestIdReused(const std::string& session);
// The session has taken this request before.
absl::Status RequestRepeated(const std::string& session);
// The newest request_id of the session is that of another request.
absl::Status RequestDiffers(const std::string& session);
// A resume of what the session does not remember.
absl::Status RequestUnknown(const std::string& session);
// A resume has taken the call over.
absl::Status StreamResumed();
// A resume behind the index `after`, which must be from `first` to `last`, or -1.
absl::Status IndexOutOfRange(int64_t after, int64_t first, int64_t last);
// The history has `tokens`, not the expected number.
absl::Status TokenCountMismatch(const std::string& session, int64_t expected,
                                int64_t tokens);
// The session is not as the caller knows it.
absl::Status EtagMismatch(const std::string& session);
// What the store has of the session is not as it was written; its history is whole up
// to so many tokens.
absl::Status SessionDamaged(const std::string& session, int64_t whole_tokens);
absl::Status CheckpointDamaged(const std::string& session, const std::string& id);
// The server keeps sessions in memory alone.
absl::Status NoStore();
// The store has a session with this id, of a model that is not loaded.
absl::Status SessionOfOtherModel(const std::string& session, const std::string& model);
absl::Status CheckpointExists(const std::string& session, const std::string& id);
absl::Status CheckpointNotFound(const std::string& session, const std::string& id);
absl::Status CheckpointLimit(const std::string& session, size_t most);
// So many exports, imports and proofs are under way.
absl::Status TransferLimit(int32_t transfers);
// More tokens than the history has, or than it has kept for good.
absl::Status BeyondHistory(int64_t position, int64_t tokens,
                           const char* field = "token_count");
// The session was set aside.
absl::Status SessionPaused(const std::string& session);
// The session was deleted while a call was on it.
absl::Status SessionDeleted();
// `wait`: the measured time until there is room, in seconds; zero: not known yet.
using Wait = std::chrono::duration<double>;
// `wait`: until a session expires.
absl::Status SessionLimit(int32_t sessions, Wait wait);
// `wait`: until the call that runs on it ends.
absl::Status SessionBusy(const std::string& session, Wait wait);
absl::Status QueueFull(int64_t queued, Wait wait);
// The call would end behind its deadline; `wait`: until it could begin.
absl::Status DeadlineUnreachable(Wait wait);
// Growing states have used up their memory; without `wait` a repetition does not help.
absl::Status NoFreeBlocks(std::optional<Wait> wait);
bool IsNoFreeBlocks(const absl::Status& status);
bool IsRetryableNoFreeBlocks(const absl::Status& status);
// `error` of a call after its admission, with whether its prompt stays in the history.
// A repetition helps only where it does not, or where the same request `resumes`.
absl::Status WithPromptTaken(const absl::Status& error, bool taken, bool resumes);
// All memory that the server may take is in use.
absl::Status MemoryLimit();
// Sessions and checkpoints take all that they may of it, so many bytes.
absl::Status SessionMemory(int64_t bytes);
// The caller did not read, or did not send, for so long.
absl::Status CallerIdle(std::chrono::milliseconds idle);
// `error` of the model, with the session that keeps the state from before the call;
// empty for none.
absl::Status NonFiniteState(const absl::Status& error, const std::string& session);
// A history of `tokens` and a prompt of `prompt` more do not fit.
absl::Status ContextLimit(int64_t tokens, int64_t prompt, int64_t context);
// A call that this kind of model does not take; `does` names what it does instead.
absl::Status WrongKind(const std::string& model, const std::string& does);
// New work in a drain.
absl::Status Draining();
// A call that a drain has left no more time.
absl::Status GraceOver();
// What was to answer has not, within its bound or before its end: whether a change was
// made can be asked for.
absl::Status NoAnswer();
bool IsNoAnswer(const absl::Status& status);
// Its consumer has cancelled the call. Without a text when memory has run out.
absl::Status Cancelled() noexcept;

}  // namespace mnemon::engine_errors
