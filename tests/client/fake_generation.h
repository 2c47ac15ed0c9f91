// SPDX-License-Identifier: MIT
// The Generation service over a script: streams that break at given tokens, refusals,
// forgotten calls, a server that is away for a while.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "base/strings.h"
#include "client/client.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "mnemon/v1/generation.grpc.pb.h"
#include "tests/fakes/patience.h"

namespace mnemon::client {

// An error with a reason, in the form that the server sends.
inline grpc::Status Typed(
    grpc::StatusCode code, const std::string& reason,
    std::optional<std::chrono::milliseconds> retry_after = std::nullopt) {
  google::rpc::Status status;
  status.set_code(code);
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  status.add_details()->PackFrom(info);
  if (retry_after) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(retry_after->count() / 1000);
    retry.mutable_retry_delay()->set_nanos(
        static_cast<int32_t>(retry_after->count() % 1000 * 1'000'000));
    status.add_details()->PackFrom(retry);
  }
  return {code, "the server says " + reason, status.SerializeAsString()};
}

// Knows one session of kBase tokens, and for each call a prompt of kPrompt tokens and
// an answer of kAnswer: token i is 100 + i, its text "i,".
class FakeGeneration final : public v1::Generation::Service {
 public:
  static constexpr int kBase = 5;
  static constexpr int kPrompt = 3;
  static constexpr int kFirst = kBase + kPrompt;  // index of the first generated token
  static constexpr int kAnswer = 6;

  // How one stream ends early. Streams beyond the script run to their end.
  struct Act {
    int tokens = 0;  // sent before
    grpc::Status status = grpc::Status(grpc::UNAVAILABLE, "the line was cut");
    bool first_message = true;  // false: nothing is sent, and the call not known
    bool forget = false;        // the call, after it
    bool hang = false;          // in place of `status`, until the stream is cancelled
    int skip = 0;               // tokens that are left out
  };

  explicit FakeGeneration(grpc::Service* other = nullptr) : other_(other) { Start(); }
  ~FakeGeneration() override { Stop(); }

  // Stops like a killed server, and starts on the same port again.
  void Stop() {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_.reset();
  }
  void Start() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    if (other_ != nullptr) builder.RegisterService(other_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    address_ = StrCat("127.0.0.1:", port);
  }
  const std::string& address() const { return address_; }
  // Waits for a hanging stream.
  void AwaitHang() const {
    EXPECT_TRUE(Eventually([&] { return hanging_.load(); }));
  }

  void Script(std::deque<Act> acts) {
    std::lock_guard lock(mutex_);
    acts_ = std::move(acts);
  }
  // All received requests.
  std::vector<v1::GenerateRequest> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }
  void Remember(const std::string& request_id) {
    std::lock_guard lock(mutex_);
    known_ = request_id;
  }

  grpc::Status Generate(grpc::ServerContext* context,
                        const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    const std::optional<Act> act = Begin(*request);
    if (act && !act->first_message) return act->status;
    if (request->has_resume_after_index() && !Known(request->request_id())) {
      return Typed(grpc::NOT_FOUND, "REQUEST_UNKNOWN");
    }
    if (!request->request_id().empty()) Remember(request->request_id());
    v1::GenerateResponse message;
    message.mutable_prompt()->set_model("models/small");
    message.mutable_prompt()->set_first_index(kBase);
    message.mutable_prompt()->set_token_count(kPrompt);
    message.mutable_prompt()->set_seed(7);
    writer->Write(message);
    const int64_t after = request->resume_after_index();
    int64_t at = request->has_resume_after_index() && after >= 0 ? after + 1 : kFirst;
    if (act) at += act->skip;
    const int64_t end = kFirst + kAnswer;
    for (int sent = 0; at < end; ++at, ++sent) {
      if (act && sent == act->tokens) return End(*act, *context);
      message.Clear();
      message.set_first_index(at);
      message.add_tokens(static_cast<int32_t>(100 + at));
      message.set_text(StrCat(at, ","));
      writer->Write(message);
    }
    if (act) return End(*act, *context);
    message.Clear();
    message.mutable_finish()->set_finish_reason(v1::FinishFacts::MAX_TOKENS);
    message.mutable_finish()->set_generated_token_count(kAnswer);
    message.mutable_finish()->set_token_count(end);
    writer->Write(message);
    return grpc::Status::OK;
  }

  static std::string Text(int from = kFirst) {
    std::string text;
    for (int i = from; i < kFirst + kAnswer; ++i) text += StrCat(i, ",");
    return text;
  }

 private:
  std::optional<Act> Begin(const v1::GenerateRequest& request) {
    std::lock_guard lock(mutex_);
    requests_.push_back(request);
    if (acts_.empty()) return std::nullopt;
    Act act = acts_.front();
    acts_.pop_front();
    return act;
  }

  bool Known(const std::string& request_id) const {
    std::lock_guard lock(mutex_);
    return request_id == known_;
  }

  grpc::Status End(const Act& act, grpc::ServerContext& context) {
    if (act.forget) Remember("");
    if (!act.hang) return act.status;
    hanging_ = true;
    Eventually([&] { return context.IsCancelled(); });
    hanging_ = false;
    return grpc::Status::CANCELLED;
  }

  grpc::Service* const other_;
  std::string address_ = "127.0.0.1:0";
  std::unique_ptr<grpc::Server> server_;
  std::atomic<bool> hanging_ = false;
  mutable std::mutex mutex_;
  std::deque<Act> acts_;                       // guarded by mutex_
  std::vector<v1::GenerateRequest> requests_;  // guarded by mutex_
  std::string known_;                          // guarded by mutex_
};

}  // namespace mnemon::client
