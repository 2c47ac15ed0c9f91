// SPDX-License-Identifier: MIT
// Calls on their way into the queue of their runner.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "server/calls/call.h"
#include "server/engine/engine_parts.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

// Bytes of introspection of one token, at most.
inline constexpr int64_t kMaxIntrospectionBytes = int64_t{1} << 20;
// Limit for all waiting tokens of a stream, and so for one message.
inline constexpr int64_t kMaxWaitingIntrospectionBytes = int64_t{2} << 20;

// Holds the session of the call, if it has a name, and queues the call. Another call
// that gives way ends first, and then the rest happens later: an error that is not
// returned ends the stream of the call. ABORTED, SESSION_BUSY; CANCELLED: a newer
// resume of the same call has come; INVALID_ARGUMENT, field "introspection": one token
// takes too much; the errors of a prompt and of ModelRunner::Enqueue. `parts` outlives
// the call. Any thread.
absl::Status SubmitCall(const EngineParts& parts, const std::shared_ptr<Call>& call,
                        std::span<const int32_t> prompt_tokens);

// Computes the history of a session without a name, whose state is kept, pinned. An
// error that is returned comes in place of the answer. `parts` outlives the call.
absl::Status ReplayHistory(const EngineParts& parts,
                           const std::shared_ptr<Session>& session, OnSynced on_end);

}  // namespace mnemon
