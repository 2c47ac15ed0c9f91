// SPDX-License-Identifier: MIT
// The methods of sessions as resources. Engine has the contract of each under the same
// name.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/engine_parts.h"
#include "server/engine/expired_sessions.h"
#include "server/engine/named_sessions.h"
#include "server/requests/request.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

// Safe for concurrent use. No method waits for a model.
class SessionMethods {
 public:
  // All three outlive it.
  SessionMethods(const EngineParts& parts, ExpiredSessions& expiry,
                 NamedSessions& named)
      : parts_(parts), expiry_(expiry), named_(named) {}

  absl::Status Create(const CreateSessionRequest& request,
                      OnAnswer<SessionFacts> on_done);
  absl::StatusOr<SessionFacts> Get(const std::string& id);
  absl::StatusOr<std::string> ModelOf(const std::string& id) const;
  absl::Status ReadHistory(const ReadHistoryRequest& request,
                           OnAnswer<HistoryPart> on_done);
  absl::StatusOr<SessionPage> List(const ListSessionsRequest& request);
  absl::Status Update(const UpdateSessionRequest& request,
                      OnAnswer<SessionFacts> on_done);
  absl::Status Delete(const std::string& id, const std::string& etag, OnSynced on_done);
  absl::Status Fork(const ForkSessionRequest& request, OnAnswer<SessionFacts> on_done);
  absl::Status Rewind(const RewindSessionRequest& request,
                      OnAnswer<SessionFacts> on_done);
  int64_t CountUnstored() const;

 private:
  // A session that has left the directory leaves the store and memory.
  void Discard(std::shared_ptr<Session> session, OnSynced on_done) const;

  const EngineParts& parts_;
  ExpiredSessions& expiry_;
  NamedSessions& named_;
};

}  // namespace mnemon
