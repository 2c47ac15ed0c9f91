// SPDX-License-Identifier: MIT
#include "server/service/call_services.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/requests/engine_errors.h"
#include "server/waiting/waiters.h"

namespace mnemon {
namespace {

using SteadyClock = std::chrono::steady_clock;

}  // namespace

Admission::Admission(double calls_per_second, const Clock& clock)
    : per_second_(calls_per_second), clock_(clock) {
  if (per_second_ > 0) bucket_.emplace(per_second_, std::max(1.0, per_second_));
}

absl::Status Admission::Admit(const Caller& caller) {
  const auto deadline = caller.deadline();
  if (deadline && *deadline <= SteadyClock::now()) return EndOfCaller(caller);
  if (!bucket_) return absl::OkStatus();
  const std::chrono::nanoseconds wait = bucket_->Take(clock_.Now());
  if (wait.count() == 0) return absl::OkStatus();
  // One more, because a caller's clock of milliseconds may be that much ahead.
  const auto retry_after =
      std::chrono::ceil<std::chrono::milliseconds>(wait) + std::chrono::milliseconds(1);
  return MakeError(absl::StatusCode::kResourceExhausted,
                   StrCat("more than ", per_second_, " calls per second"),
                   {.reason = "RATE_LIMIT", .retry_after = retry_after});
}

void HandlerThreads::Run(std::function<void(const absl::Status& turn)> body) {
  const auto latest = SteadyClock::now() + Waiters::kBound;
  threads_.Post(MakeCallback([latest, body = std::move(body)] {
    body(SteadyClock::now() <= latest ? absl::OkStatus()
                                      : CatchOutOfMemory({}, engine_errors::NoAnswer));
  }));
}

absl::StatusOr<std::string> CallServices::ServingModel(const std::string& session,
                                                       const std::string& model) const {
  if (!session.empty()) return engine.ModelOfSession(session);
  MNEMON_ASSIGN_OR_RETURN(ModelFacts facts, engine.GetModel(model));
  return facts.name;
}

void CallServices::RecordNames(Caller& caller, const std::string& session,
                               const std::string& model) const {
  caller.progress().SetSession(session);
  caller.progress().SetModel(ServingModel(session, model).value_or(""));
}

}  // namespace mnemon
