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

// Answers a unary call later: `begin` gets a function to be called once with the status
// of the call, from any thread; not where it returns or throws an error, which is the
// status then.
template <class Begin>
grpc::ServerUnaryReactor* AnswerLater(grpc::CallbackServerContext* context,
                                      const RequestScope& scope, Begin&& begin) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto finish = [reactor, context, scope](const absl::Status& status) {
    reactor->Finish(ToGrpcStatus(status, scope, context));
  };
  const absl::Status status = Guarded([&] { return begin(finish); });
  if (!status.ok()) finish(status);
  return reactor;
}

}  // namespace mnemon
