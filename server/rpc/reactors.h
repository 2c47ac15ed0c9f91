// SPDX-License-Identifier: MIT
// The reactors of gRPC calls: they pass events and messages on between gRPC and the
// handlers of the service layer, one reactor for each call, which deletes itself at the
// end of the call.
#pragma once

#include <memory>
#include <new>
#include <utility>

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "absl/status/status.h"
#include "server/rpc/call_context.h"
#include "server/rpc/status_mapping.h"
#include "server/service/caller.h"
#include "server/service/stream_handlers.h"
#include "server/service/unary_methods.h"

namespace mnemon {

// A new Reactor for the call of `context`; null when memory has run out, which the
// interceptor then answers. REQUIRES: CallerOf(context) is not null.
template <class Reactor, class... Args>
Reactor* MakeReactor(grpc::CallbackServerContext* context, Args&&... args) {
  try {
    return new Reactor(std::forward<Args>(args)...);
  } catch (const std::bad_alloc&) {
    CallerOf(context)->call()->SetNoReactor();
    return nullptr;
  }
}

template <class Method>
class UnaryReactor final : public grpc::ServerUnaryReactor {
 public:
  UnaryReactor(const CallServices& services, grpc::CallbackServerContext* context,
               const Method& method, const typename Method::Request& request,
               typename Method::Response& response)
      : caller_(*CallerOf(context)) {
    caller_.SetReactor(this);
    method.begin(services, caller_, request, response);
  }

  void OnCancel() override {
    if (CallEvents* const events = caller_.events()) events->OnGone();
  }
  void OnDone() override {
    if (CallEvents* const events = caller_.events()) events->OnDone();
    delete this;
  }

 private:
  RpcCaller& caller_;
};

// What the reactors of all streaming calls do. `End`: CallEnd, or a class of it. gRPC
// delivers no event before the constructor has returned, nor behind OnDone.
template <class Base, class End>
class StreamReactor : public Base, public End {
 public:
  void OnCancel() final { handler_->OnGone(); }
  void OnDone() final {
    handler_->OnDone();
    delete this;
  }
  void Finish(const absl::Status& status, const RequestScope& scope) final {
    Base::Finish(ToGrpcStatus(status, scope, context_));
  }

 protected:
  explicit StreamReactor(grpc::CallbackServerContext* context) : context_(context) {}

  void Begin(std::unique_ptr<StreamHandler> handler) {
    handler_ = std::move(handler);
    handler_->Start();
  }
  StreamHandler& handler() { return *handler_; }
  grpc::CallbackServerContext* context() const { return context_; }

 private:
  grpc::CallbackServerContext* const context_;
  std::unique_ptr<StreamHandler> handler_;  // constant once the call has begun
};

template <class Base, class Response>
class WritingReactor : public StreamReactor<Base, ResponseWriter<Response>> {
 public:
  void Write(const Response& message) final { this->StartWrite(&message); }
  void WriteLast(const Response& message, const absl::Status& status,
                 const RequestScope& scope) final {
    this->StartWriteAndFinish(&message, {},
                              ToGrpcStatus(status, scope, this->context()));
  }
  void OnWriteDone(bool ok) final { this->handler().OnWritten(ok); }

 protected:
  using StreamReactor<Base, ResponseWriter<Response>>::StreamReactor;
};

// One request, many responses. `make` gets the reactor and returns the handler.
template <class Response>
class ServerStreamReactor final
    : public WritingReactor<grpc::ServerWriteReactor<Response>, Response> {
 public:
  template <class Make>
  ServerStreamReactor(grpc::CallbackServerContext* context, const Make& make)
      : WritingReactor<grpc::ServerWriteReactor<Response>, Response>(context) {
    this->Begin(make(*this));
  }
};

// Many requests, many responses.
template <class Request, class Response>
class BidiReactor final
    : public WritingReactor<grpc::ServerBidiReactor<Request, Response>, Response>,
      public RequestReader<Request> {
 public:
  template <class Make>
  BidiReactor(grpc::CallbackServerContext* context, const Make& make)
      : WritingReactor<grpc::ServerBidiReactor<Request, Response>, Response>(context) {
    this->Begin(make(*this));
  }

  void Read(Request& message) override { this->StartRead(&message); }
  void OnReadDone(bool ok) override { this->handler().OnRead(ok); }
};

// Many requests, one response.
template <class Request>
class ClientStreamReactor final
    : public StreamReactor<grpc::ServerReadReactor<Request>, CallEnd>,
      public RequestReader<Request> {
 public:
  template <class Make>
  ClientStreamReactor(grpc::CallbackServerContext* context, const Make& make)
      : StreamReactor<grpc::ServerReadReactor<Request>, CallEnd>(context) {
    this->Begin(make(*this));
  }

  void Read(Request& message) override { this->StartRead(&message); }
  void OnReadDone(bool ok) override { this->handler().OnRead(ok); }
};

}  // namespace mnemon
