// SPDX-License-Identifier: MIT
#include "client/session_calls.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "client/messages.h"
#include "client/request_id.h"
#include "client/session_messages.h"
#include "client/stall_watch.h"

namespace mnemon::client {
namespace {

using Stub = v1::Sessions::Stub;

constexpr size_t kImportChunkBytes = size_t{1} << 18;

absl::Status Stalled(std::chrono::milliseconds limit) {
  return absl::DeadlineExceededError(
      StrCat("the server made no progress within ", limit.count(), " ms"));
}

template <class Request>
Request WithId(Request request) {
  if (request.request_id().empty()) request.set_request_id(NewRequestId());
  return request;
}

// An incoming snapshot, checked against the size in its first message.
class IncomingSnapshot {
 public:
  explicit IncomingSnapshot(const SnapshotSink& sink) : sink_(sink) {}

  absl::Status Take(const v1::ExportSessionResponse& message) {
    if (!opened_) {
      if (!message.has_session() || message.size_bytes() < 0) {
        return absl::DataLossError("the server began without the session's facts");
      }
      opened_ = true;
      exported_.session = FromMessage(message.session());
      exported_.size_bytes = message.size_bytes();
    }
    received_ += static_cast<int64_t>(message.chunk().size());
    if (received_ > exported_.size_bytes) return WrongSize("more");
    return message.chunk().empty() ? absl::OkStatus() : sink_(message.chunk());
  }

  absl::StatusOr<ExportedSession> Finish() {
    if (!opened_) return absl::DataLossError("the server sent nothing");
    if (received_ < exported_.size_bytes) return WrongSize(StrCat(received_));
    return std::move(exported_);
  }

 private:
  absl::Status WrongSize(const std::string& count) const {
    return absl::DataLossError(StrCat("the server announced ", exported_.size_bytes,
                                      " bytes and sent ", count));
  }

  const SnapshotSink& sink_;
  ExportedSession exported_;
  int64_t received_ = 0;
  bool opened_ = false;
};

absl::Status WrongSourceSize(int64_t expected, const std::string& count) {
  return InvalidField("size_bytes", StrCat("the snapshot was said to have ", expected,
                                           " bytes and has ", count));
}

// Passes `source` to `write` until it ends or `write` fails, which is not an error
// here.
absl::Status SendChunks(
    const SnapshotSource& source, int64_t size,
    const std::function<bool(const v1::ImportSessionRequest&)>& write) {
  int64_t sent = 0;
  v1::ImportSessionRequest message;
  while (true) {
    message.mutable_chunk()->resize(kImportChunkBytes);
    MNEMON_ASSIGN_OR_RETURN(const size_t count,
                            source(message.mutable_chunk()->data(), kImportChunkBytes));
    if (count == 0) break;
    sent += static_cast<int64_t>(count);
    if (sent > size) return WrongSourceSize(size, "more");
    message.mutable_chunk()->resize(count);
    if (!write(message)) return absl::OkStatus();
  }
  return sent == size ? absl::OkStatus() : WrongSourceSize(size, StrCat(sent));
}

}  // namespace

SessionCalls::SessionCalls(Connection& connection)
    : connection_(connection), stub_(v1::Sessions::NewStub(connection.channel())) {}

template <class Request>
absl::StatusOr<Session> SessionCalls::CallForSession(
    grpc::Status (v1::Sessions::Stub::*method)(grpc::ClientContext*, const Request&,
                                               v1::Session*),
    const Request& request, Repeat repeat) {
  v1::Session session;
  MNEMON_RETURN_IF_ERROR(connection_.Call(*stub_, method, request, session, repeat));
  return FromMessage(session);
}

absl::StatusOr<Session> SessionCalls::Create(const CreateSessionOptions& options) {
  return CallForSession(&Stub::CreateSession, WithId(ToMessage(options)), Repeat::kYes);
}

absl::StatusOr<Session> SessionCalls::Get(const std::string& id) {
  v1::GetSessionRequest request;
  request.set_name(SessionResource(id));
  return CallForSession(&Stub::GetSession, request, Repeat::kYes);
}

absl::StatusOr<SessionPage> SessionCalls::List(const ListSessionsOptions& options) {
  v1::ListSessionsRequest request;
  request.set_page_size(options.page_size);
  request.set_page_token(options.page_token);
  request.set_filter(options.filter);
  request.set_order_by(options.order_by);
  v1::ListSessionsResponse response;
  MNEMON_RETURN_IF_ERROR(
      connection_.Call(*stub_, &Stub::ListSessions, request, response, Repeat::kYes));
  SessionPage page{.sessions = {}, .next_page_token = response.next_page_token()};
  for (const v1::Session& session : response.sessions()) {
    page.sessions.push_back(FromMessage(session));
  }
  return page;
}

absl::StatusOr<Session> SessionCalls::Update(const UpdateSessionOptions& options) {
  // The first try would have changed the etag.
  return CallForSession(&Stub::UpdateSession, ToMessage(options),
                        options.etag.empty() ? Repeat::kYes : Repeat::kNo);
}

absl::Status SessionCalls::Delete(const DeleteSessionOptions& options) {
  v1::DeleteSessionRequest request;
  request.set_name(SessionResource(options.id));
  request.set_etag(options.etag);
  request.set_allow_missing(options.allow_missing);
  google::protobuf::Empty nothing;
  return connection_.Call(*stub_, &Stub::DeleteSession, request, nothing,
                          options.allow_missing ? Repeat::kYes : Repeat::kNo);
}

absl::StatusOr<Session> SessionCalls::Fork(const ForkSessionOptions& options) {
  return CallForSession(&Stub::ForkSession, WithId(ToMessage(options)), Repeat::kYes);
}

absl::StatusOr<Session> SessionCalls::Rewind(const RewindSessionOptions& options) {
  if (options.position.has_value() == !options.checkpoint.empty()) {
    return InvalidField("target",
                        "a session is rewound to a number of tokens or to a "
                        "checkpoint: give one of them");
  }
  // Another call may have continued from there before a second try.
  return CallForSession(&Stub::RewindSession, ToMessage(options), Repeat::kNo);
}

absl::StatusOr<SessionCheckpoint> SessionCalls::Checkpoint(
    const CheckpointSessionOptions& options) {
  v1::CheckpointSessionRequest request;
  request.set_name(SessionResource(options.id));
  request.set_checkpoint_id(options.checkpoint);
  request.set_request_id(options.request_id);
  v1::Checkpoint checkpoint;
  MNEMON_RETURN_IF_ERROR(connection_.Call(*stub_, &Stub::CheckpointSession,
                                          WithId(std::move(request)), checkpoint,
                                          Repeat::kYes));
  return FromMessage(checkpoint);
}

absl::StatusOr<ExportedSession> SessionCalls::Export(const std::string& id,
                                                     const SnapshotSink& sink) {
  grpc::ClientContext context;
  Connection::Registration registration(connection_, &context);
  MNEMON_RETURN_IF_ERROR(connection_.Reach(registration));
  StallWatch watch(context, connection_.call_timeout());
  v1::ExportSessionRequest request;
  request.set_name(SessionResource(id));
  auto reader = watch.Bound([&] { return stub_->ExportSession(&context, request); });
  IncomingSnapshot snapshot(sink);
  absl::Status fault;
  v1::ExportSessionResponse message;
  while (watch.Bound([&] { return reader->Read(&message); })) {
    if (!fault.ok()) continue;
    fault = snapshot.Take(message);
    if (!fault.ok()) context.TryCancel();
  }
  const absl::Status status =
      connection_.FromServer(watch.Bound([&] { return reader->Finish(); }));
  MNEMON_RETURN_IF_ERROR(fault);
  if (watch.stalled()) return Stalled(connection_.call_timeout());
  MNEMON_RETURN_IF_ERROR(status);
  return snapshot.Finish();
}

absl::StatusOr<Session> SessionCalls::Import(const ImportSessionOptions& options,
                                             const SnapshotSource& source) {
  if (options.size_bytes < 1) {
    return InvalidField("size_bytes", "a snapshot has at least one byte");
  }
  v1::ImportSessionRequest open = ToMessage(options);
  *open.mutable_open() = WithId(std::move(*open.mutable_open()));
  Connection::Registration registration(connection_);
  absl::StatusOr<Session> session;
  bool first = true;
  MNEMON_RETURN_IF_ERROR(
      connection_.Try(registration, options.rewind ? Repeat::kYes : Repeat::kNo, [&] {
        if (!std::exchange(first, false)) MNEMON_RETURN_IF_ERROR(options.rewind());
        session = ImportOnce(open, options.size_bytes, source, registration);
        return session.status();
      }));
  return session;
}

absl::StatusOr<Session> SessionCalls::ImportOnce(const v1::ImportSessionRequest& open,
                                                 int64_t size,
                                                 const SnapshotSource& source,
                                                 Connection::Registration& call) {
  MNEMON_RETURN_IF_ERROR(connection_.Reach(call));
  grpc::ClientContext context;
  call.SetStream(&context);
  StallWatch watch(context, connection_.call_timeout());
  v1::Session session;
  auto writer = watch.Bound([&] { return stub_->ImportSession(&context, &session); });
  const auto write = [&](const v1::ImportSessionRequest& message) {
    return watch.Bound([&] { return writer->Write(message); });
  };
  absl::Status fault;
  if (write(open)) fault = SendChunks(source, size, write);
  if (fault.ok()) {
    watch.Bound([&] { return writer->WritesDone(); });
  } else {
    context.TryCancel();
  }
  const absl::Status status =
      connection_.FromServer(watch.Bound([&] { return writer->Finish(); }));
  call.SetStream(nullptr);
  MNEMON_RETURN_IF_ERROR(fault);
  if (watch.stalled()) return Stalled(connection_.call_timeout());
  MNEMON_RETURN_IF_ERROR(status);
  return FromMessage(session);
}

absl::StatusOr<Verification> SessionCalls::Verify(const std::string& id, bool replay) {
  grpc::ClientContext context;
  Connection::Registration registration(connection_, &context);
  MNEMON_RETURN_IF_ERROR(connection_.Reach(registration));
  if (!replay) {
    context.set_deadline(std::chrono::system_clock::now() + connection_.call_timeout());
  }
  v1::VerifySessionRequest request;
  request.set_name(SessionResource(id));
  request.set_replay(replay);
  v1::VerifySessionResponse response;
  MNEMON_RETURN_IF_ERROR(
      connection_.FromServer(stub_->VerifySession(&context, request, &response)));
  return FromMessage(response);
}

}  // namespace mnemon::client
