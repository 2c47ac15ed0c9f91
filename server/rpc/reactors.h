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
#include "server/service/methods.h"

namespace mnemon {

// The reactor that `make` returns for the call of `context`; null when memory has run
// out, which the interceptor then answers. REQUIRES: CallerOf(context) is not null.
template <class Make>
auto MakeReactor(grpc::CallbackServerContext* context, const Make& make)
    -> decltype(make()) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    CallerOf(context)->SetNoReactor();
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

// The common part of the reactors of streaming calls. `End`: CallEnd, or a class of it.
// gRPC delivers no event before the method that makes the reactor has returned, nor
// after OnDone.
template <class Base, class End>
class StreamReactor : public Base, public End {
 public:
  explicit StreamReactor(grpc::CallbackServerContext* context) : context_(context) {}

  void Begin(std::unique_ptr<StreamHandler> handler) {
    handler_ = std::move(handler);
    handler_->Start();
  }
  void OnCancel() final { handler_->OnGone(); }
  void OnDone() final {
    handler_->OnDone();
    delete this;
  }
  void Finish(const absl::Status& status, const RequestScope& scope) final {
    Base::Finish(ToGrpcStatus(status, scope, context_));
  }

 protected:
  grpc::CallbackServerContext* const context_;
  std::unique_ptr<StreamHandler> handler_;  // constant once the call has begun
};

// One that sends many responses.
template <class Base, class Response>
class WritingReactor : public StreamReactor<Base, ResponseWriter<Response>> {
 public:
  using StreamReactor<Base, ResponseWriter<Response>>::StreamReactor;

  void Write(const Response& message) final { this->StartWrite(&message); }
  void WriteLast(const Response& message, const absl::Status& status,
                 const RequestScope& scope) final {
    this->StartWriteAndFinish(&message, {},
                              ToGrpcStatus(status, scope, this->context_));
  }
  void OnWriteDone(bool ok) final { this->handler_->OnWritten(ok); }
};

// One that receives many requests.
template <class Base, class Request>
class ReadingReactor : public Base, public RequestReader<Request> {
 public:
  using Base::Base;

  void Read(Request& message) final { this->StartRead(&message); }
  void OnReadDone(bool ok) final { this->handler_->OnRead(ok); }
};

template <class Response>
using ServerStreamReactor =
    WritingReactor<grpc::ServerWriteReactor<Response>, Response>;
template <class Request, class Response>
using BidiReactor =
    ReadingReactor<WritingReactor<grpc::ServerBidiReactor<Request, Response>, Response>,
                   Request>;
template <class Request>
using ClientStreamReactor =
    ReadingReactor<StreamReactor<grpc::ServerReadReactor<Request>, CallEnd>, Request>;

}  // namespace mnemon
