// SPDX-License-Identifier: MIT
// The ways in which a unary call is answered: at once, on a handler's thread, or later
// by the engine.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "server/service/call_services.h"
#include "server/service/caller.h"
#include "server/service/guard.h"
#include "server/service/late_answer.h"

namespace mnemon {

// Answers with what `body` returns.
template <class Body>
void AnswerNow(UnaryCaller& caller, const RequestScope& scope, const Body& body) {
  caller.Answer(Guarded(body), scope);
}

// Whether a call whose `turn` on a handler has come begins: not one whose caller has
// gone meanwhile.
inline absl::Status MayBegin(const Caller& caller, const absl::Status& turn) {
  return turn.ok() && caller.gone() ? EndOfCaller(caller) : turn;
}

// The same on one of `handlers`, for a `body` that may wait.
template <class Body>
void AnswerApart(UnaryCaller& caller, const RequestScope& scope,
                 HandlerThreads& handlers, const Body& body) {
  const absl::Status begun = Guarded([&] {
    handlers.Run([=, &caller](const absl::Status& turn) {
      caller.Answer(Guarded([&]() -> absl::Status {
                      MNEMON_RETURN_IF_ERROR(MayBegin(caller, turn));
                      return body();
                    }),
                    scope);
    });
    return absl::OkStatus();
  });
  if (!begun.ok()) caller.Answer(begun, scope);
}

// Answers later: `begin` is called on one of `services.handlers`, and may wait. It gets
// a function to be called, from any thread, with one that returns the status of the
// call, and may fill in the response before; it is not called where the call was
// answered, or the server has ended it. An error that `begin` returns or throws is the
// status then. `begin` is not called where the server takes no calls any more.
template <class Begin>
void AnswerLater(UnaryCaller& caller, const RequestScope& scope,
                 const CallServices& services, const Begin& begin) {
  std::shared_ptr<LateAnswer> answer;
  const absl::Status status = Guarded([&]() -> absl::Status {
    answer = LateAnswer::Open(caller, scope, services.calls);
    const auto finish = [answer](const auto& write) {
      answer->Finish([&] { return Guarded(write); });
    };
    services.handlers.Run([=, &caller](const absl::Status& turn) {
      answer->Begin([&] {
        const absl::Status begun = Guarded([&]() -> absl::Status {
          MNEMON_RETURN_IF_ERROR(MayBegin(caller, turn));
          return begin(finish);
        });
        if (!begun.ok()) finish([&] { return begun; });
      });
    });
    return absl::OkStatus();
  });
  if (status.ok()) return;
  if (answer != nullptr) return answer->Finish([&] { return status; });
  // Nobody else knows the call yet.
  caller.Answer(status, scope);
}

}  // namespace mnemon
