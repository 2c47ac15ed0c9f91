// SPDX-License-Identifier: MIT
// The calls of a client on sessions.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/connection.h"
#include "client/session.h"
#include "mnemon/v1/sessions.grpc.pb.h"

namespace mnemon::client {

// See Client for what each does. `connection` must outlive it; safe for concurrent use.
class SessionCalls {
 public:
  explicit SessionCalls(Connection& connection);

  absl::StatusOr<Session> Create(const CreateSessionOptions& options);
  absl::StatusOr<Session> Get(const std::string& id);
  absl::StatusOr<SessionPage> List(const ListSessionsOptions& options);
  absl::StatusOr<Session> Update(const UpdateSessionOptions& options);
  absl::Status Delete(const DeleteSessionOptions& options);
  absl::StatusOr<Session> Fork(const ForkSessionOptions& options);
  absl::StatusOr<Session> Rewind(const RewindSessionOptions& options);
  absl::StatusOr<SessionCheckpoint> Checkpoint(const CheckpointSessionOptions& options);
  absl::StatusOr<ExportedSession> Export(const std::string& id,
                                         const SnapshotSink& sink);
  absl::StatusOr<Session> Import(const ImportSessionOptions& options,
                                 const SnapshotSource& source);
  absl::StatusOr<Verification> Verify(const std::string& id, bool replay);

 private:
  using Repeat = Connection::Repeat;

  // Makes a short call that returns a session.
  template <class Request>
  absl::StatusOr<Session> CallForSession(
      grpc::Status (v1::Sessions::Stub::*method)(grpc::ClientContext*, const Request&,
                                                 v1::Session*),
      const Request& request, Repeat repeat);
  // One try.
  absl::StatusOr<Session> ImportOnce(const v1::ImportSessionRequest& open, int64_t size,
                                     const SnapshotSource& source,
                                     Connection::Registration& call);

  Connection& connection_;
  const std::unique_ptr<v1::Sessions::Stub> stub_;
};

}  // namespace mnemon::client
