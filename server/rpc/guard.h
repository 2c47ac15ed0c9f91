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

}  // namespace mnemon
