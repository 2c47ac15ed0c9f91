// SPDX-License-Identifier: MIT
// The boundary between our code and gRPC's callbacks, which exceptions must not cross.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include <grpcpp/server_context.h>

#include "absl/status/status.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/rpc/admission.h"
#include "server/rpc/handler_threads.h"
#include "server/rpc/late_answer.h"
#include "server/rpc/reactors.h"
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

// Whether a call whose `turn` on a handler has come begins: not one whose caller has
// gone meanwhile.
inline absl::Status MayBegin(const grpc::CallbackServerContext& context,
                             const absl::Status& turn) {
  return turn.ok() && context.IsCancelled() ? EndOfCaller(context) : turn;
}

// The same on one of `handlers`, for a `body` that may wait.
template <class Body>
grpc::ServerUnaryReactor* AnswerApart(grpc::CallbackServerContext* context,
                                      const RequestScope& scope,
                                      HandlerThreads& handlers, const Body& body) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const auto finish = [=](const absl::Status& status) {
    reactor->Finish(ToGrpcStatus(status, scope, context));
  };
  const absl::Status begun = Guarded([&] {
    handlers.Run([=](const absl::Status& turn) {
      finish(Guarded([&]() -> absl::Status {
        MNEMON_RETURN_IF_ERROR(MayBegin(*context, turn));
        return body();
      }));
    });
    return absl::OkStatus();
  });
  if (!begun.ok()) finish(begun);
  return reactor;
}

// Answers a unary call later: `begin` is called on one of `shared.handlers`, and may
// wait. It gets a function to be called, from any thread, with one that returns the
// status of the call, and may fill in the response before; it is not called where the
// call was answered, or the server has ended it. An error that `begin` returns or
// throws is the status then. `begin` is not called where the server takes no calls any
// more.
template <class Begin>
grpc::ServerUnaryReactor* AnswerLater(grpc::CallbackServerContext* context,
                                      const RequestScope& scope,
                                      const CallServices& shared, const Begin& begin) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  std::shared_ptr<LateAnswer> answer;
  const absl::Status status = Guarded([&]() -> absl::Status {
    answer = LateAnswer::Open(context, reactor, scope, shared.calls);
    const auto finish = [answer](const auto& write) {
      answer->Finish([&] { return Guarded(write); });
    };
    shared.handlers.Run([=](const absl::Status& turn) {
      answer->Begin([&] {
        const absl::Status begun = Guarded([&]() -> absl::Status {
          MNEMON_RETURN_IF_ERROR(MayBegin(*context, turn));
          return begin(finish);
        });
        if (!begun.ok()) finish([&] { return begun; });
      });
    });
    return absl::OkStatus();
  });
  if (status.ok()) return reactor;
  if (answer != nullptr) {
    answer->Finish([&] { return status; });
  } else {
    // Nobody else knows the call yet.
    reactor->Finish(ToGrpcStatus(status, scope, context));
  }
  return reactor;
}

}  // namespace mnemon
