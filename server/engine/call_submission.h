// SPDX-License-Identifier: MIT
// Calls on their way into the queue of their runner: each gets its session, the state
// of that from the store, and its prompt after the history.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/calls/call.h"
#include "server/engine/engine_parts.h"

namespace mnemon {

// Safe for concurrent use. An error that is not returned ends the stream of the call.
class CallSubmission {
 public:
  // `parts` outlives it.
  explicit CallSubmission(const EngineParts& parts) : parts_(parts) {}

  // Holds the session of the call, if it has a name, and queues the call. Another call
  // that gives way ends first, and then the rest happens later. ABORTED, SESSION_BUSY;
  // CANCELLED: a newer resume of the same call has come; the errors of a prompt and of
  // ModelRunner::Enqueue.
  absl::Status Submit(const std::shared_ptr<Call>& call,
                      std::span<const int32_t> prompt_tokens) const;

 private:
  // Whether the call holds its session, or would after another one has given way.
  enum class Entry { kHeld, kAfterAnother, kBusy };
  absl::StatusOr<Entry> Enter(Call& call) const;
  // After the task that made another call give way. A resume waits for a call before it
  // that leaves the session.
  void SubmitAfterOther(const std::shared_ptr<Call>& call,
                        const std::vector<int32_t>& prompt, absl::Status ended) const;
  // SubmitHeld, later where the state of the session comes from the store first.
  absl::Status SubmitRestored(const std::shared_ptr<Call>& call,
                              std::span<const int32_t> prompt_tokens) const;
  // REQUIRES: the call holds its session, if that has a name. On error it holds it no
  // more.
  absl::Status SubmitHeld(const std::shared_ptr<Call>& call,
                          std::span<const int32_t> prompt_tokens) const;
  // The part of SubmitHeld that may fail.
  absl::Status Queue(const std::shared_ptr<Call>& call,
                     std::span<const int32_t> prompt_tokens) const;
  // Prepares a call that resumes another one, and fills its stream with what is there.
  // True: with the end, too, which `call.delivery.ending` then has. `prompt` gets the
  // tokens that are computed again. NOT_FOUND, REQUEST_UNKNOWN; OUT_OF_RANGE,
  // INDEX_OUT_OF_RANGE.
  absl::StatusOr<bool> TakeUp(Call& call, std::vector<int32_t>& prompt) const;
  // The call resumes another one that has ended: its stream ends likewise, and the
  // session is released. REQUIRES: `call.delivery.ending`.
  void GiveEnd(Call& call) const;
  // The prompt as it follows `tokens` tokens of the history: a conversation depends on
  // them, and the first text of a history begins as texts do. `whole` holds the tokens
  // where they are not those of `prompt`.
  absl::StatusOr<std::span<const int32_t>> WholePrompt(
      const Call& call, int64_t tokens, std::span<const int32_t> prompt,
      std::vector<int32_t>& whole) const;
  // Stages the prompt after the first `tokens` tokens of the history, and counts
  // penalties and bytes; `most`: tokens of the history at the end. MEMORY_LIMIT.
  absl::Status Stage(Call& call, int64_t tokens, int64_t most,
                     std::span<const int32_t> prompt) const;
  // Fills in what of the record depends on the history. MEMORY_LIMIT.
  absl::Status CompleteRecord(Call& call, std::span<const int32_t> prompt) const;
  // The call will not use the session that it holds.
  void LetGo(Call& call) const;

  const EngineParts& parts_;
};

}  // namespace mnemon
