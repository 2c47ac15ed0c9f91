// SPDX-License-Identifier: MIT
// The context of a gRPC call from its arrival to its end: request id and record.
//
// An interceptor makes the RpcCall when the call arrives, attaches it to the call's
// context, where handlers find it, and hands the record to log and observer once gRPC
// releases the call.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>

#include "absl/status/status.h"
#include "server/rpc/rpc_record.h"
#include "server/transport/connection_table.h"

namespace mnemon {

// Safe for concurrent use: reads, writes and the reactor of a call are on different
// threads.
class RpcCall : public std::enable_shared_from_this<RpcCall> {
 public:
  // `connection`: that it came by; null within the process.
  explicit RpcCall(std::string method,
                   std::shared_ptr<const Connection> connection = nullptr);

  const std::shared_ptr<const Connection>& connection() const { return connection_; }

  std::string request_id() const;
  // A token, or another result that a retry would repeat, was handed to the transport,
  // or was taken from the engine and lost on the way there.
  bool delivered() const;
  // Once the call is over: its record, which is empty from then on. Needs no memory.
  RpcRecord TakeRecord();

  void SetRequestId(std::string id);
  void SetModel(const std::string& name);
  void SetSession(const std::string& id);
  void SetReason(const std::string& reason);
  // Memory for the call's reactor has run out. Needs none.
  void SetNoReactor();
  bool no_reactor() const;
  void SetQueueTime(std::chrono::nanoseconds time);
  void AddPromptTokens(int64_t count);
  // Results other than generated tokens.
  void AddDelivered();
  void AddGeneratedTokens(int64_t count);
  void AddSentBytes(int64_t bytes);
  void AddReceivedBytes(int64_t bytes);
  // The call has its status; the first one counts. Needs no memory.
  void End(absl::StatusCode code);
  // Replaces the status, which did not reach the caller; no effect before End. Needs no
  // memory.
  void ReplaceEnd(absl::StatusCode code, std::string reason);

 private:
  const std::chrono::steady_clock::time_point start_;
  const std::shared_ptr<const Connection> connection_;
  mutable std::mutex mutex_;
  RpcRecord record_;        // guarded by mutex_
  bool delivered_ = false;  // guarded by mutex_, as is the next one
  bool no_reactor_ = false;
};

// The call of `context`; null when the context is null, or belongs to an unknown
// method. Valid as long as the context.
RpcCall* CallOf(grpc::ServerContextBase* context);

// The returned function breaks off the call of `context` at the transport: what is in
// flight fails, and the caller gets a status without details. It is safe for concurrent
// use, also after the call. A status that the call had is replaced in its record.
// REQUIRES: CallOf(&context) is not null.
std::function<void(const absl::Status&)> CancelFunctionOf(
    grpc::CallbackServerContext& context);

// A new Reactor for the call of `context`; null when memory has run out, which the
// interceptor then answers. REQUIRES: CallOf(context) is not null.
template <class Reactor, class... Args>
Reactor* MakeReactor(grpc::CallbackServerContext* context, Args&&... args) {
  try {
    return new Reactor(std::forward<Args>(args)...);
  } catch (const std::bad_alloc&) {
    CallOf(context)->SetNoReactor();
    return nullptr;
  }
}

// Makes the contexts that CallOf needs, for all callback methods of a server.
std::unique_ptr<grpc::ContextAllocator> MakeContextAllocator();

// For every call: RpcCall, trailer x-request-id, log line, `observer` (may be null),
// and its entry in the connection of `connections` that it came by. Gives ErrorInfo to
// errors of gRPC's own that have none: methods that are unknown or unimplemented,
// messages that cannot be parsed, what health and reflection refuse. `connections`
// outlives all calls.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeCallInterceptors(std::shared_ptr<CallObserver> observer,
                     const ConnectionTable& connections);

// What the caller sent as x-request-id, if it is 1 to 64 letters, digits, '-', '_' and
// '.'; else 16 random hexadecimal digits.
std::string ChooseRequestId(std::string_view sent);

}  // namespace mnemon
