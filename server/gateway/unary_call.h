// SPDX-License-Identifier: MIT
// The calls of the service layer that a call of the HTTP API makes, as their callers.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/service/caller.h"
#include "server/service/service.h"
#include "server/service/unary_methods.h"

namespace mnemon {

// Runs what it is given on the strand of the HTTP API's call. May throw std::bad_alloc.
using PostToStrand = std::function<void(std::function<void()>)>;

// The common part of callers that are the HTTP API. `Role`: Caller or UnaryCaller. Its
// access record begins with it.
template <class Role>
class GatewayCaller : public Role {
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
  // The HTTP server has a time limit of its own for peers that do not read.
  std::shared_ptr<const Connection> connection() const final { return nullptr; }

 protected:
  void SetGone() { gone_ = true; }
  void EndRecord() { service_.access_log().End(progress_); }

 private:
  const Service& service_;
  CallProgress progress_;
  std::atomic<bool> gone_ = false;
};

// A unary call. OnGone and Done run on the strand.
class UnaryCall : public GatewayCaller<UnaryCaller>,
                  public std::enable_shared_from_this<UnaryCall> {
 public:
  // The peer of the HTTP API has gone.
  void OnGone() {
    SetGone();
    if (events_ != nullptr) events_->OnGone();
  }

  std::function<void(const absl::Status&)> CancelFunction() final {
    return [](const absl::Status&) {};  // nothing is in flight
  }
  void Watch(std::shared_ptr<CallEvents> events) final { events_ = std::move(events); }
  void Answer(const absl::Status& status, const RequestScope& scope) final;

 protected:
  UnaryCall(const Service& service, const char* method, const std::string& request_id,
            PostToStrand post)
      : GatewayCaller(service, method, request_id), post_(std::move(post)) {}

  // Calls `begin`, which begins the call, and keeps this object until its end.
  template <class Begin>
  void Keep(const Begin& begin) {
    self_ = shared_from_this();
    try {
      begin();
    } catch (const std::bad_alloc&) {
      self_ = nullptr;
      EndRecord();
      throw;
    }
  }
  virtual int64_t response_bytes() const = 0;
  virtual void Done(const absl::Status& status) = 0;

 private:
  void Over();

  const PostToStrand post_;
  std::shared_ptr<CallEvents> events_;
  std::shared_ptr<UnaryCall> self_;  // until the answer comes
};

template <class Request, class Response>
class MethodCall final : public UnaryCall {
 public:
  using OnDone = std::function<void(const absl::Status&, const Response&)>;

  MethodCall(const Service& service, const UnaryMethod<Request, Response>& method,
             Request request, const std::string& request_id, PostToStrand post,
             OnDone done)
      : UnaryCall(service, method.name, request_id, std::move(post)),
        request_(std::move(request)),
        done_(std::move(done)) {
    progress().AddReceivedBytes(static_cast<int64_t>(request_.ByteSizeLong()));
  }

  // Once. May throw std::bad_alloc: then `done` is not called.
  void Start(const CallServices& parts, const UnaryMethod<Request, Response>& method) {
    Keep([&] { method.begin(parts, *this, request_, response_); });
  }

 private:
  int64_t response_bytes() const override {
    return static_cast<int64_t>(response_.ByteSizeLong());
  }
  void Done(const absl::Status& status) override { done_(status, response_); }

  const Request request_;
  Response response_;
  const OnDone done_;
};

}  // namespace mnemon
