// SPDX-License-Identifier: MIT
#include "server/service/admission.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {

Admission::Admission(double calls_per_second, const Clock& clock)
    : per_second_(calls_per_second), clock_(clock) {
  if (per_second_ > 0) bucket_.emplace(per_second_, std::max(1.0, per_second_));
}

absl::Status Admission::Admit(const Caller& caller) {
  const auto deadline = caller.deadline();
  if (deadline && *deadline <= std::chrono::steady_clock::now()) {
    return EndOfCaller(caller);
  }
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

}  // namespace mnemon
