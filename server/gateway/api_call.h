// SPDX-License-Identifier: MIT
// One call of the HTTP API on its way: its exchange, the calls of the service layer
// that carry it out, and the order in which what comes from both is handled.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "server/engine/engine.h"
#include "server/gateway/gateway.h"
#include "server/gateway/unary_call.h"
#include "server/http/http_exchange.h"
#include "server/service/service.h"

namespace mnemon {

// Counts bytes of a body, or of what is made of it, as long as it is held.
using BodyCharge = std::shared_ptr<void>;

// One that grows. One thread at a time.
class GrowingCharge {
 public:
  // `charged` of at most `most` bytes, by all.
  GrowingCharge(std::shared_ptr<std::atomic<int64_t>> charged, int64_t most)
      : charged_(std::move(charged)), most_(most) {}
  ~GrowingCharge() { *charged_ -= bytes_; }
  GrowingCharge(const GrowingCharge&) = delete;
  GrowingCharge& operator=(const GrowingCharge&) = delete;

  // To `bytes` in all, at least; false, and as before: others take the memory.
  bool GrowTo(int64_t bytes);

 private:
  const std::shared_ptr<std::atomic<int64_t>> charged_;
  const int64_t most_;
  int64_t bytes_ = 0;
};

// Threads that do what is posted, in no order.
class CallThreads {
 public:
  using Executor = boost::asio::io_context::executor_type;

  // Throws std::system_error, and there is none then.
  explicit CallThreads(int count);
  // All that was posted is done first.
  ~CallThreads();
  CallThreads(const CallThreads&) = delete;
  CallThreads& operator=(const CallThreads&) = delete;

  Executor executor() { return io_.get_executor(); }

 private:
  void Join();

  boost::asio::io_context io_;
  boost::asio::executor_work_guard<Executor> work_ = boost::asio::make_work_guard(io_);
  std::vector<std::thread> threads_;  // constant once made
};

// What all calls of a gateway share. Safe for concurrent use.
class GatewayShared {
 public:
  // Counts a call as long as it lives.
  class Ticket {
   public:
    explicit Ticket(GatewayShared& shared);
    ~Ticket();
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

   private:
    GatewayShared& shared_;
  };

  GatewayShared(Service& service_in, const GatewayOptions& options_in);
  // Waits until no call is left.
  ~GatewayShared();

  Service& service;
  const Engine& engine;  // for facts of models and their texts
  const GatewayOptions options;
  const int64_t start_time;  // in seconds since 1970

  // Null: other calls take the memory. A charge may outlive this object.
  BodyCharge Reserve(int64_t bytes);
  // Of nothing yet.
  std::shared_ptr<GrowingCharge> BeginCharge();
  // RESOURCE_EXHAUSTED, MEMORY_LIMIT.
  static absl::Status MemoryLimit();

 private:
  friend class ApiCall;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t calls_ = 0;  // guarded by mutex_
  const std::shared_ptr<std::atomic<int64_t>> charged_ =
      std::make_shared<std::atomic<int64_t>>(0);
  // On which calls do their work, so that the HTTP thread never waits.
  CallThreads threads_{2};
};

// Everything protected runs on the call's strand, one at a time, and may throw: the
// answer is then an error.
class ApiCall : public std::enable_shared_from_this<ApiCall> {
 public:
  // `body`: of the memory that the exchange's body takes; null: it has none.
  ApiCall(GatewayShared& shared, std::shared_ptr<HttpExchange> exchange,
          BodyCharge body);
  virtual ~ApiCall();
  ApiCall(const ApiCall&) = delete;
  ApiCall& operator=(const ApiCall&) = delete;

  // Begins to answer. The call keeps itself alive while something is under way.
  void Start();

 protected:
  virtual void Run() = 0;
  // The peer is gone: what is under way is cancelled. Nothing can be answered.
  virtual void OnGone();

  // Runs `action` on the strand.
  void Post(std::function<void()> action);

  // Whether a call ends when the peer goes. One that makes something does not, or
  // nobody would know whether it has.
  enum class WhenGone { kCancel, kFinish };
  // Begins a call of `method`; `done` gets its end, on the strand.
  template <class Request, class Response>
  void Call(const UnaryMethod<Request, Response>& method, Request request,
            typename MethodCall<Request, Response>::OnDone done,
            WhenGone when_gone = WhenGone::kCancel) {
    const auto call = std::make_shared<MethodCall<Request, Response>>(
        shared_.service, method, std::move(request), request_id_,
        [self = shared_from_this()](std::function<void()> work) {
          self->Post(std::move(work));
        },
        std::move(done));
    if (when_gone == WhenGone::kCancel) unary_.emplace_back(call);
    call->Start(shared_.service.parts(), method);
  }

  void Reply(const nlohmann::json& body);
  // An answer, or, behind the beginning of a stream, FailStream.
  void Fail(const absl::Status& status);
  virtual void FailStream(const absl::Status& status) {}

  GatewayShared& shared() const { return shared_; }
  HttpExchange& exchange() { return *exchange_; }
  const HttpRequest& request() const { return exchange_->request(); }
  const std::string& request_id() const { return request_id_; }
  // Headers of every answer.
  std::vector<HttpHeader> Headers() const;
  bool gone() const { return gone_; }
  bool answered() const { return answered_; }
  void SetAnswered() { answered_ = true; }

 private:
  GatewayShared& shared_;
  // Before all that needs what is shared: given back behind it.
  const GatewayShared::Ticket ticket_;
  const std::shared_ptr<HttpExchange> exchange_;
  const BodyCharge body_;
  const std::string request_id_;
  boost::asio::strand<CallThreads::Executor> strand_;
  bool gone_ = false;
  bool answered_ = false;                        // wholly, or its beginning
  std::vector<std::weak_ptr<UnaryCall>> unary_;  // under way
};

}  // namespace mnemon
