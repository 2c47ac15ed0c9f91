// SPDX-License-Identifier: MIT
// The Sessions service over plain maps on a free loopback port, which a test can make
// fail, stop half-way and hang.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "base/strings.h"
#include "client/client.h"
#include "gtest/gtest.h"
#include "mnemon/v1/sessions.grpc.pb.h"
#include "tests/fakes/patience.h"

namespace mnemon::client {

// Tests use the members while no call runs: after a call that the client has left,
// Settle.
class FakeSessions final : public v1::Sessions::Service {
 public:
  // What a stream does instead of completing.
  enum class Fault { kNone, kBreak, kHang };

  FakeSessions() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
    address_ = StrCat("127.0.0.1:", port);
  }
  ~FakeSessions() override {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  const std::string& address() const { return address_; }
  std::unique_ptr<Client> NewClient(
      std::chrono::milliseconds timeout = kPatience) const {
    return Client::Connect({.server = address_, .call_timeout = timeout});
  }

  // Waits until no stream and no verification runs.
  void Settle() const {
    EXPECT_TRUE(Eventually([&] { return running_ == 0; }));
  }

  // A session with a fact in every field.
  v1::Session& Add(const std::string& id, int64_t tokens) {
    v1::Session& session = sessions[id];
    session.set_name("sessions/" + id);
    session.set_model("models/small");
    session.set_state(v1::Session::IDLE);
    session.set_token_count(tokens);
    session.set_state_size_bytes(tokens * 100);
    session.mutable_create_time()->set_seconds(1767225600);
    session.mutable_last_use_time()->set_seconds(1767225661);
    session.mutable_last_use_time()->set_nanos(250000000);
    session.mutable_expire_time()->set_seconds(1767312061);
    session.set_etag("e1");
    session.set_durability(v1::Session::TURN);
    session.set_tier(v1::Session::HOST);
    session.set_model_id("aa11");
    session.set_numerics_id("fp32/1");
    return session;
  }

  grpc::Status CreateSession(grpc::ServerContext*,
                             const v1::CreateSessionRequest* request,
                             v1::Session* session) override {
    if (Lost(request->request_id())) return Gone();
    created = *request;
    return Make(request->session_id(), request->session(), 0, session);
  }

  grpc::Status GetSession(grpc::ServerContext*, const v1::GetSessionRequest* request,
                          v1::Session* session) override {
    if (Lost("")) return Gone();
    return Find(request->name(), "", [&](v1::Session& found) { *session = found; });
  }

  grpc::Status ListSessions(grpc::ServerContext*,
                            const v1::ListSessionsRequest* request,
                            v1::ListSessionsResponse* response) override {
    if (Lost("")) return Gone();
    listed.push_back(*request);
    const size_t size = request->page_size() > 0 ? request->page_size() : 2;
    for (const auto& [id, session] : sessions) {
      if (id <= request->page_token()) continue;
      if (response->sessions_size() == static_cast<int>(size)) {
        const std::string& last = response->sessions(size - 1).name();
        response->set_next_page_token(last.substr(last.find('/') + 1));
        break;
      }
      *response->add_sessions() = session;
    }
    if (same_page_forever) response->set_next_page_token("again");
    return grpc::Status::OK;
  }

  grpc::Status UpdateSession(grpc::ServerContext*,
                             const v1::UpdateSessionRequest* request,
                             v1::Session* session) override {
    if (Lost("")) return Gone();
    updated = *request;
    return Find(request->session().name(), request->session().etag(),
                [&](v1::Session& found) {
                  for (const std::string& path : request->update_mask().paths()) {
                    if (path == "paused") found.set_paused(request->session().paused());
                    if (path == "sampling") {
                      *found.mutable_sampling() = request->session().sampling();
                    }
                  }
                  *session = found;
                });
  }

  grpc::Status DeleteSession(grpc::ServerContext*,
                             const v1::DeleteSessionRequest* request,
                             google::protobuf::Empty*) override {
    if (Lost("")) return Gone();
    const grpc::Status status =
        Find(request->name(), request->etag(), [](v1::Session&) {});
    if (status.ok()) sessions.erase(IdOf(request->name()));
    const bool absent = status.error_code() == grpc::NOT_FOUND;
    return absent && request->allow_missing() ? grpc::Status::OK : status;
  }

  grpc::Status ForkSession(grpc::ServerContext*, const v1::ForkSessionRequest* request,
                           v1::Session* session) override {
    if (Lost(request->request_id())) return Gone();
    forked = *request;
    int64_t tokens = 0;
    const grpc::Status status = Find(request->name(), "", [&](v1::Session& found) {
      tokens =
          request->has_token_count() ? request->token_count() : found.token_count();
    });
    if (!status.ok()) return status;
    return Make(request->session_id(), request->session(), tokens, session);
  }

  grpc::Status RewindSession(grpc::ServerContext*,
                             const v1::RewindSessionRequest* request,
                             v1::Session* session) override {
    if (Lost("")) return Gone();
    rewound = *request;
    int64_t tokens = request->token_count();
    const grpc::Status status =
        Find(request->name(), request->etag(), [&](auto& found) {
          for (const v1::Checkpoint& one : found.checkpoints()) {
            if (one.checkpoint_id() == request->checkpoint_id())
              tokens = one.token_count();
          }
          if (tokens <= found.token_count()) found.set_token_count(tokens);
          *session = found;
        });
    if (status.ok() && tokens > session->token_count()) {
      return {grpc::OUT_OF_RANGE, StrCat("cannot go on to ", tokens, " tokens")};
    }
    return status;
  }

  grpc::Status CheckpointSession(grpc::ServerContext*,
                                 const v1::CheckpointSessionRequest* request,
                                 v1::Checkpoint* checkpoint) override {
    if (Lost(request->request_id())) return Gone();
    checkpointed = *request;
    return Find(request->name(), "", [&](v1::Session& found) {
      checkpoint->set_checkpoint_id(
          request->checkpoint_id().empty() ? "drawn" : request->checkpoint_id());
      checkpoint->set_token_count(found.token_count());
      checkpoint->mutable_create_time()->set_seconds(1767225661);
      checkpoint->set_size_bytes(4096);
      *found.add_checkpoints() = *checkpoint;
    });
  }

  grpc::Status ExportSession(
      grpc::ServerContext* context, const v1::ExportSessionRequest* request,
      grpc::ServerWriter<v1::ExportSessionResponse>* writer) override {
    const Running running(running_);
    v1::ExportSessionResponse message;
    const grpc::Status status = Find(request->name(), "", [&](v1::Session& found) {
      *message.mutable_session() = found;
    });
    if (!status.ok()) return status;
    message.set_size_bytes(announced_bytes.value_or(snapshot.size()));
    const size_t end = fault == Fault::kNone ? snapshot.size() : snapshot.size() / 2;
    for (size_t at = 0; at < end; at += chunk_bytes) {
      message.set_chunk(snapshot.substr(at, std::min(chunk_bytes, end - at)));
      if (!writer->Write(message)) return grpc::Status::CANCELLED;
      message.clear_session();
      message.clear_size_bytes();
    }
    return EndOf(*context);
  }

  grpc::Status ImportSession(grpc::ServerContext* context,
                             grpc::ServerReader<v1::ImportSessionRequest>* reader,
                             v1::Session* session) override {
    const Running running(running_);
    v1::ImportSessionRequest message;
    imported.clear();
    chunk_sizes.clear();
    if (!reader->Read(&message)) return {grpc::INVALID_ARGUMENT, "nothing came"};
    opened = message.open();
    while (reader->Read(&message)) {
      chunk_sizes.push_back(message.chunk().size());
      imported += message.chunk();
      if (fault != Fault::kNone) return EndOf(*context);
      if (Lost(opened.request_id())) return Gone();
    }
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    const grpc::Status status = EndOf(*context);
    if (!status.ok()) return status;
    return Make(opened.session_id(), opened.session(), 7, session);
  }

  grpc::Status VerifySession(grpc::ServerContext* context,
                             const v1::VerifySessionRequest* request,
                             v1::VerifySessionResponse* response) override {
    const Running running(running_);
    replayed = request->replay();
    *response = verification;
    const grpc::Status status = Find(request->name(), "", [](v1::Session&) {});
    return status.ok() ? EndOf(*context) : status;
  }

  // This many calls end with UNAVAILABLE and do nothing.
  int losses = 0;
  std::vector<std::string> lost_ids;  // the request_id of each

  // Received requests.
  v1::CreateSessionRequest created;
  v1::UpdateSessionRequest updated;
  v1::ForkSessionRequest forked;
  v1::RewindSessionRequest rewound;
  v1::CheckpointSessionRequest checkpointed;
  v1::ImportSessionRequest::Open opened;
  std::vector<v1::ListSessionsRequest> listed;
  std::string imported;
  std::vector<size_t> chunk_sizes;
  bool replayed = false;
  // Their answers.
  std::map<std::string, v1::Session> sessions;
  v1::VerifySessionResponse verification;
  std::string snapshot;
  std::optional<size_t> announced_bytes;
  size_t chunk_bytes = 1000;
  Fault fault = Fault::kNone;
  bool same_page_forever = false;
  std::function<void()> before_hang;

 private:
  struct Running {
    explicit Running(std::atomic<int>& calls) : count(calls) { ++count; }
    ~Running() { --count; }
    std::atomic<int>& count;
  };

  bool Lost(const std::string& request_id) {
    if (losses == 0) return false;
    --losses;
    lost_ids.push_back(request_id);
    return true;
  }
  static grpc::Status Gone() { return {grpc::UNAVAILABLE, "the line was cut"}; }

  static std::string IdOf(const std::string& name) {
    return name.substr(name.find('/') + 1);
  }

  grpc::Status Find(const std::string& name, const std::string& etag,
                    const std::function<void(v1::Session&)>& use) {
    const auto found = sessions.find(IdOf(name));
    if (name.rfind("sessions/", 0) != 0 || found == sessions.end()) {
      return {grpc::NOT_FOUND, StrCat("no session ", name)};
    }
    if (!etag.empty() && etag != found->second.etag()) {
      return {grpc::ABORTED, StrCat("the etag is ", found->second.etag())};
    }
    use(found->second);
    return grpc::Status::OK;
  }

  grpc::Status Make(const std::string& id, const v1::Session& from, int64_t tokens,
                    v1::Session* session) {
    const std::string chosen = id.empty() ? StrCat("drawn-", ++drawn_) : id;
    if (sessions.contains(chosen)) {
      return {grpc::ALREADY_EXISTS, StrCat("sessions/", chosen, " exists")};
    }
    v1::Session& made = Add(chosen, tokens);
    if (!from.model().empty()) made.set_model(from.model());
    *session = made;
    return grpc::Status::OK;
  }

  grpc::Status EndOf(grpc::ServerContext& context) {
    if (fault == Fault::kBreak) return {grpc::DATA_LOSS, "the disk broke"};
    if (fault == Fault::kNone) return grpc::Status::OK;
    if (before_hang) before_hang();
    Eventually([&] { return context.IsCancelled(); });
    return grpc::Status::CANCELLED;
  }

  int drawn_ = 0;
  std::atomic<int> running_ = 0;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace mnemon::client
