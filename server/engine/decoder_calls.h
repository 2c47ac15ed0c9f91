// SPDX-License-Identifier: MIT
// Calls that run a decoder: each request is checked, and becomes a Call that is
// submitted.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/call_submission.h"
#include "server/engine/engine_parts.h"
#include "server/engine/named_sessions.h"
#include "server/requests/request.h"
#include "server/run/score_call.h"
#include "server/streams/token_stream.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

// Safe for concurrent use.
class DecoderCalls {
 public:
  // Both outlive it.
  DecoderCalls(const EngineParts& parts, NamedSessions& named)
      : parts_(parts), named_(named), submission_(parts) {}

  // Engine has the contract of these three.
  absl::StatusOr<std::shared_ptr<TokenStream>> Generate(const GenerateRequest& request,
                                                        std::function<void()> on_ready);
  absl::StatusOr<ScoreCall> Score(const ScoreRequest& request,
                                  std::function<void()> on_ready);
  void RecordRefusal(const GenerateRequest& request, const absl::Status& status) const;

  // Computes the history of a session without a name, whose state is kept, pinned. An
  // error that is returned comes in place of the answer.
  absl::Status Replay(const std::shared_ptr<Session>& session,
                      OneAnswer<absl::Status> on_end) const;

 private:
  using Time = std::chrono::steady_clock::time_point;

  // The session of that id, or a new one for a call without.
  absl::StatusOr<std::shared_ptr<Session>> SessionFor(const std::string& id,
                                                      const std::string& model);
  // The call that the request resumes or repeats, with the errors of such; null: the
  // request is a new call.
  absl::StatusOr<std::shared_ptr<const CallRecord>> FindResumed(
      const GenerateRequest& request, const Session& session) const;
  absl::StatusOr<std::shared_ptr<TokenStream>> Resume(
      std::shared_ptr<Session> session, const CallRecord& record, int64_t after,
      std::optional<Time> deadline, std::function<void()> on_ready) const;
  // All that decides the tokens of a new call, but for its prompt; `request_hash` is
  // empty unless it can be resumed. `conversation` may be null. REQUIRES: a checked
  // request.
  CallParams ParamsOf(const GenerateRequest& request, const Session& session,
                      const ConversationPrompt* conversation) const;
  // A call with its stream, but for what the history of its session decides.
  std::shared_ptr<Call> MakeCall(std::shared_ptr<Session> session,
                                 std::shared_ptr<const CallParams> params,
                                 std::optional<Time> deadline,
                                 std::function<void()> on_ready) const;
  void OpenStream(const std::shared_ptr<Call>& call, const Tokenizer* tokenizer,
                  std::vector<std::string> stop_strings,
                  std::function<void()> on_ready) const;
  // Gives a call that scores a copy of its session, which it holds from now on if it
  // commits.
  absl::Status CopySource(const ScoreRequest& request, Call& call) const;
  // SessionDirectory::Hold; ABORTED, SESSION_BUSY, when another call holds it.
  absl::Status Hold(Session& session, const std::string& request_id) const;

  const EngineParts& parts_;
  NamedSessions& named_;
  const CallSubmission submission_;
};

}  // namespace mnemon
