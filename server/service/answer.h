// SPDX-License-Identifier: MIT
// The ways in which a unary call is answered: at once, on a handler's thread, or later
// by the engine.
#pragma once

#include <functional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/service/call_services.h"
#include "server/service/caller.h"

namespace mnemon {

// Answers with what `body` returns.
template <class Body>
void AnswerNow(UnaryCaller& caller, const RequestScope& scope, const Body& body) {
  caller.Answer(Guarded(body), scope);
}

// The same on one of `handlers`, for a `body` that may wait. It is not called if the
// caller has gone meanwhile.
void AnswerApart(UnaryCaller& caller, const RequestScope& scope,
                 HandlerThreads& handlers, std::function<absl::Status()> body);

// Finishes a call, from any thread, with the status that `write` returns, which may
// fill in the response. `write` is not called if the call was answered before, or ended
// by the server: then the response may be gone.
using FinishCall = std::function<void(absl::FunctionRef<absl::Status()> write)>;

// Answers later: `begin` is called on one of `services.handlers`, and may wait. An
// error that it returns or throws is the status of the call. It is not called if the
// caller has gone meanwhile, or if the server takes no calls any more. The call is open
// until it is answered, and ends early with StopAll.
void AnswerLater(UnaryCaller& caller, const RequestScope& scope,
                 const CallServices& services,
                 std::function<absl::Status(const FinishCall& finish)> begin);

}  // namespace mnemon
