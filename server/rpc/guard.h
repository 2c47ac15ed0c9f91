// SPDX-License-Identifier: MIT
// The boundary between our code and gRPC's callbacks, which exceptions must not cross.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include <grpcpp/server_context.h>

#include "absl/status/status.h"
#include "base/out_of_memory.h"
#include "base/strings.h"
#include "server/rpc/late_answer.h"
#include "server/rpc/open_calls.h"
#include "server/rpc/status_mapping.h"

namespace mnemon {

// The status that `body` returns, or the one that its exception stands for.
template <class Body>
absl::Status Guarded(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return OutOfMemoryError();
  } catch (const std::exception& error) {
    return absl::InternalError(StrCat("exception: ", error.what()));
  } catch (...) {
    return absl::InternalError("exception of unknown type");
  }
}

// Answers a unary call with what `body` returns.
template <class Body>
grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                 const RequestScope& scope, Body&& body) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(Guarded(std::forward<Body>(body)), scope, context));
  return reactor;
}

// Answers a unary call later: `begin` gets a function to be called, from any thread,
// with one that returns the status of the call, and may fill in the response before;
// it is not called where the call was answered, or the server has ended it. An error
// that `begin` returns or throws is the status then. `begin` is not called where the
// server takes no calls any more.
template <class Begin>
grpc::ServerUnaryReactor* AnswerLater(grpc::CallbackServerContext* context,
                                      const RequestScope& scope, OpenCalls& calls,
                                      Begin&& begin) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const absl::Status status = Guarded([&]() -> absl::Status {
    const auto answer = LateAnswer::Open(context, reactor, scope, calls);
    // A refused call changes nothing.
    if (answer->answered()) return absl::OkStatus();
    const auto finish = [answer](const auto& write) {
      answer->Finish([&] { return Guarded(write); });
    };
    const absl::Status begun = Guarded([&] { return begin(finish); });
    if (!begun.ok()) finish([&] { return begun; });
    return absl::OkStatus();
  });
  // Nobody else knows the call yet.
  if (!status.ok()) reactor->Finish(ToGrpcStatus(status, scope, context));
  return reactor;
}

}  // namespace mnemon
