// SPDX-License-Identifier: MIT
#include "server/rpc/admission.h"

#include <algorithm>
#include <new>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {

Admission::Admission(double calls_per_second, const Clock& clock)
    : per_second_(calls_per_second), clock_(clock) {
  if (per_second_ > 0) bucket_.emplace(per_second_, std::max(1.0, per_second_));
}

absl::Status Admission::Admit(const grpc::ServerContextBase& context) {
  if (context.deadline() <= std::chrono::system_clock::now()) {
    return EndOfCaller(context);
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

absl::Status EndOfCaller(const grpc::ServerContextBase& context) {
  const bool late = context.deadline() <= std::chrono::system_clock::now();
  const auto code =
      late ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kCancelled;
  try {
    return absl::Status(code,
                        late ? "the deadline has passed" : "cancelled by the caller");
  } catch (const std::bad_alloc&) {
    return absl::Status(code, "");
  }
}

std::optional<std::chrono::steady_clock::time_point> DeadlineOf(
    const grpc::ServerContextBase& context) {
  using std::chrono::steady_clock;
  using std::chrono::system_clock;
  const system_clock::time_point deadline = context.deadline();
  const system_clock::time_point now = system_clock::now();
  // Without a deadline gRPC gives the greatest time.
  constexpr std::chrono::hours kNone{24 * 36525};
  if (deadline > now + kNone) return std::nullopt;
  return steady_clock::now() + (std::max(deadline, now) - now);
}

}  // namespace mnemon
