// SPDX-License-Identifier: MIT
// One call of the HTTP API: its exchange, the calls of the service layer that carry it
// out, and one order for what comes from both.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <google/protobuf/message.h>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>

#include "absl/status/status.h"
#include "base/memory/byte_budget.h"
#include "nlohmann/json.hpp"
#include "server/engine/engine.h"
#include "server/gateway/gateway.h"
#include "server/http/http_exchange.h"
#include "server/service/caller.h"
#include "server/service/methods.h"
#include "server/service/service.h"

namespace mnemon {

// Runs work on the strand of the HTTP API's call. May throw std::bad_alloc.
using PostToStrand = std::function<void(std::function<void()>)>;

// The common part of callers of the HTTP API. `Role`: Caller or UnaryCaller. The access
// record of the call begins with it.
template <class Role>
class GatewayCaller : public Role,
                      public std::enable_shared_from_this<GatewayCaller<Role>> {
 public:
  GatewayCaller(const Service& service, const char* method,
                const std::string& request_id)
      : service_(service), progress_(method) {
    progress_.SetRequestId(request_id);
    service_.access_log().Begin(method);
  }

  CallProgress& progress() final { return progress_; }
  std::optional<Caller::Time> deadline() const final { return std::nullopt; }
  bool gone() const final { return gone_; }
  // The HTTP server has its own time limit for peers that do not read.
  std::shared_ptr<const Connection> connection() const final { return nullptr; }

 protected:
  void SetGone() { gone_ = true; }
  void EndRecord() { service_.access_log().End(progress_); }

  // Calls `begin`, which begins the call, and keeps this object until TakeSelf.
  template <class Begin>
  void Keep(const Begin& begin) {
    self_ = this->shared_from_this();
    try {
      begin();
    } catch (const std::bad_alloc&) {
      self_ = nullptr;
      EndRecord();
      throw;
    }
  }
  std::shared_ptr<GatewayCaller> TakeSelf() { return std::move(self_); }

 private:
  const Service& service_;
  CallProgress progress_;
  std::atomic<bool> gone_ = false;
  std::shared_ptr<GatewayCaller> self_;
};

// A unary call. OnGone is called on the strand.
class UnaryCall final : public GatewayCaller<UnaryCaller> {
 public:
  // Begins a call of `method`; `done` gets its end, on the strand. May throw
  // std::bad_alloc: then there is no call.
  template <class Request, class Response, class Done>
  static std::shared_ptr<UnaryCall> Start(const Service& service,
                                          const UnaryMethod<Request, Response>& method,
                                          Request request,
                                          const std::string& request_id,
                                          PostToStrand post, Done done) {
    struct Messages {
      Request request;
      Response response;
    };
    const std::shared_ptr<Messages> both(new Messages{.request = std::move(request)});
    const auto call = std::make_shared<UnaryCall>(
        service, method.name, request_id, std::move(post), both->response,
        [both, done = std::move(done)](const absl::Status& status) {
          done(status, both->response);
        });
    call->progress().AddReceivedBytes(
        static_cast<int64_t>(both->request.ByteSizeLong()));
    call->Keep(
        [&] { method.begin(service.parts(), *call, both->request, both->response); });
    return call;
  }

  // `done` keeps `response`.
  UnaryCall(const Service& service, const char* method, const std::string& request_id,
            PostToStrand post, const google::protobuf::Message& response,
            std::function<void(const absl::Status&)> done)
      : GatewayCaller(service, method, request_id),
        post_(std::move(post)),
        response_(response),
        done_(std::move(done)) {}

  // The peer of the HTTP API has gone.
  void OnGone() {
    SetGone();
    if (events_ != nullptr) events_->OnGone();
  }

  std::function<void(const absl::Status&)> CancelFunction() override {
    return [](const absl::Status&) {};  // nothing is in flight
  }
  void Watch(std::shared_ptr<CallEvents> events) override {
    events_ = std::move(events);
  }

  void Answer(const absl::Status& status, const RequestScope& scope) override {
    const auto self = TakeSelf();
    const absl::Status end = PublicStatus(status, scope, &progress());
    if (end.ok()) {
      progress().AddSentBytes(static_cast<int64_t>(response_.ByteSizeLong()));
    }
    progress().End(end.code());
    try {
      post_([this, self, end] {
        Over();
        done_(end);
      });
    } catch (const std::bad_alloc&) {
      // Nobody holds the call of the API any more: it breaks off.
      Over();
    }
  }

 private:
  void Over() {
    EndRecord();
    if (const auto events = std::exchange(events_, nullptr)) events->OnDone();
  }

  const PostToStrand post_;
  const google::protobuf::Message& response_;
  const std::function<void(const absl::Status&)> done_;
  std::shared_ptr<CallEvents> events_;
};

// Threads that run what is posted, in no order. The destructor runs the rest first.
class CallThreads {
 public:
  using Executor = boost::asio::io_context::executor_type;

  // Throws std::system_error when a thread cannot be started.
  explicit CallThreads(int count) {
    while (count-- > 0) threads_.emplace_back([this] { io_.run(); });
  }

  Executor executor() { return io_.get_executor(); }

 private:
  boost::asio::io_context io_;
  std::vector<std::jthread> threads_;
  // Destroyed first: then the threads end.
  boost::asio::executor_work_guard<Executor> work_ = boost::asio::make_work_guard(io_);
};

// What all calls of a gateway share. Safe for concurrent use.
struct GatewayShared {
  GatewayShared(Service& service_in, const GatewayOptions& options_in);
  // Waits until no call is left.
  ~GatewayShared();

  Service& service;
  const Engine& engine;  // for facts of models and their texts
  const GatewayOptions options;
  const int64_t start_time;  // in seconds since 1970
  // The memory for bodies and what is made of them. Charges may outlive this object.
  const std::shared_ptr<ByteAccount> bodies;
  // Held by each call until nothing of it needs this object.
  std::shared_ptr<void> open_call;
  std::future<void> closed;  // the last copy of open_call is gone
  CallThreads threads{2};
};

// The error of a charge that is refused: RESOURCE_EXHAUSTED, MEMORY_LIMIT.
absl::Status BodyMemoryError();

class ApiCall;
struct ApiRoute;

// What a call is made of.
struct ApiStart {
  GatewayShared& shared;
  const ApiRoute& route;
  std::string id;  // in the path; see ApiRoute
  std::shared_ptr<HttpExchange> exchange;
  std::shared_ptr<ByteCharge> body;  // of the exchange's body; null: it has none
};

struct ApiRoute {
  std::string_view method;
  std::string_view path;  // '*' stands for an id: "/v1/sessions/*/fork"
  std::shared_ptr<ApiCall> (*make)(ApiStart start);
  // The field of the request, or "" for the request, whose name is "sessions/ID".
  const char* named = nullptr;
};

// Everything protected runs on the call's strand, one at a time, and may throw: the
// answer is then an error.
class ApiCall : public std::enable_shared_from_this<ApiCall> {
 public:
  explicit ApiCall(ApiStart start);
  virtual ~ApiCall();
  ApiCall(const ApiCall&) = delete;
  ApiCall& operator=(const ApiCall&) = delete;

  // Begins to answer. The call keeps itself alive while something is under way.
  void Start();

 protected:
  virtual void Run() = 0;
  // The peer has gone, so nothing can be answered: cancels what is under way.
  virtual void OnGone();

  // Runs `action` on the strand.
  void Post(std::function<void()> action);

  // Whether a call ends when the peer goes. A call that makes something does not, or
  // nobody would know whether it has.
  enum class WhenGone { kCancel, kFinish };
  // Begins a call of `method`; `done` gets its status and response, on the strand.
  template <class Request, class Response, class Done>
  void Call(const UnaryMethod<Request, Response>& method, Request request, Done done,
            WhenGone when_gone = WhenGone::kCancel) {
    const auto call = UnaryCall::Start(
        shared().service, method, std::move(request), request_id_,
        [self = shared_from_this()](std::function<void()> work) {
          self->Post(std::move(work));
        },
        std::move(done));
    if (when_gone == WhenGone::kCancel) unary_.emplace_back(call);
  }

  void Reply(const nlohmann::json& body);
  // Answers with an error; after the beginning of a stream, FailStream.
  void Fail(const absl::Status& status);
  virtual void FailStream(const absl::Status& status) {}

  GatewayShared& shared() const { return start_.shared; }
  const ApiRoute& route() const { return start_.route; }
  const std::string& id() const { return start_.id; }
  HttpExchange& exchange() { return *start_.exchange; }
  const HttpRequest& request() const { return start_.exchange->request(); }
  const std::string& request_id() const { return request_id_; }
  // Headers of every answer.
  std::vector<HttpHeader> Headers() const;
  bool gone() const { return gone_; }
  // Wholly, or its beginning.
  bool answered() const { return answered_; }
  void SetAnswered() { answered_ = true; }

 private:
  const std::shared_ptr<void> open_call_;  // the first member: released last
  const ApiStart start_;
  const std::string request_id_;
  boost::asio::strand<CallThreads::Executor> strand_;
  bool gone_ = false;
  bool answered_ = false;
  std::vector<std::weak_ptr<UnaryCall>> unary_;  // under way
};

}  // namespace mnemon
