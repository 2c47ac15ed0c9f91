// SPDX-License-Identifier: MIT
// The context of a gRPC call: its caller as handlers know it, and its record. An
// interceptor makes the record when the call arrives, attaches it to the context, and
// hands it to the access log once gRPC releases the call.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "absl/status/status.h"
#include "server/service/access_record.h"
#include "server/service/caller.h"
#include "server/transport/connection_table.h"

namespace mnemon {

// The caller of a gRPC call. Part of the call's context.
class RpcCaller final : public UnaryCaller {
 public:
  explicit RpcCaller(grpc::CallbackServerContext& context) : context_(context) {}

  // Before a handler runs. `connection`: null when it has already ended.
  void Attach(std::shared_ptr<CallProgress> call,
              std::shared_ptr<const Connection> connection) {
    call_ = std::move(call);
    connection_ = std::move(connection);
  }
  // The reactor of a unary call, for Answer.
  void SetReactor(grpc::ServerUnaryReactor* reactor) { reactor_ = reactor; }
  // Null: nobody watches the call.
  CallEvents* events() const { return events_.get(); }
  bool attached() const { return call_ != nullptr; }
  // Memory for the call's reactor has run out. Needs none.
  void SetNoReactor() { no_reactor_ = true; }
  bool no_reactor() const { return no_reactor_; }

  CallProgress& progress() override { return *call_; }
  std::optional<Time> deadline() const override;
  bool gone() const override { return context_.IsCancelled(); }
  std::shared_ptr<const Connection> connection() const override { return connection_; }
  // What is in flight fails at the transport, and the caller gets a status without
  // details, also in its record.
  std::function<void(const absl::Status&)> CancelFunction() override;
  void Watch(std::shared_ptr<CallEvents> events) override {
    events_ = std::move(events);
  }
  void Answer(const absl::Status& status, const RequestScope& scope) override;

 private:
  grpc::CallbackServerContext& context_;
  // Constant once a handler runs.
  std::shared_ptr<CallProgress> call_;
  std::shared_ptr<const Connection> connection_;
  grpc::ServerUnaryReactor* reactor_ = nullptr;
  std::shared_ptr<CallEvents> events_;
  std::atomic<bool> no_reactor_ = false;
};

// The caller of `context`; null when the context is null, or belongs to an unknown
// method. Valid as long as the context.
RpcCaller* CallerOf(grpc::ServerContextBase* context);

// Gives the calls of a server what CallerOf needs, the trailer x-request-id, and
// entries in `access_log` and in their connection of `connections`. Gives ErrorInfo to
// errors of gRPC's own that have none: methods that are unknown or unimplemented,
// messages that cannot be parsed, what health and reflection refuse. Both outlive all
// calls.
void AddCallContexts(const AccessLog& access_log, const ConnectionTable& connections,
                     grpc::ServerBuilder& builder);

}  // namespace mnemon
