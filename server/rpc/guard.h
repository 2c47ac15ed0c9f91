// SPDX-License-Identifier: MIT
// The edge between our code and gRPC's callbacks, which exceptions must not cross.
#pragma once

#include <chrono>
#include <exception>
#include <new>
#include <utility>

#include <grpcpp/server_context.h>

#include "absl/status/status.h"
#include "base/error.h"
#include "base/strings.h"
#include "server/rpc/status_mapping.h"

namespace mnemon {

inline absl::Status OutOfMemory() {
  return MakeError(
      absl::StatusCode::kResourceExhausted, "out of memory",
      {.reason = "OUT_OF_MEMORY", .retry_after = std::chrono::milliseconds(1000)});
}

// The status that `body` returns, or the one its exception amounts to.
template <class Body>
absl::Status Guarded(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const std::exception& error) {
    return absl::InternalError(StrCat("exception: ", error.what()));
  } catch (...) {
    return absl::InternalError("exception of unknown type");
  }
}

// How a call ends that gRPC has cancelled.
inline absl::Status EndOfCaller(const grpc::ServerContextBase& context) {
  if (context.deadline() <= std::chrono::system_clock::now()) {
    return absl::DeadlineExceededError("the deadline has passed");
  }
  return absl::CancelledError("cancelled by the caller");
}

// A streaming call that ends at once.
template <class Reactor>
class EndedReactor final : public Reactor {
 public:
  explicit EndedReactor(grpc::Status status) { this->Finish(std::move(status)); }
  void OnDone() override { delete this; }
};

// Answers a unary call with what `body` returns.
template <class Body>
grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                 const RequestScope& scope, Body&& body) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(Guarded(std::forward<Body>(body)), scope, context));
  return reactor;
}

}  // namespace mnemon
