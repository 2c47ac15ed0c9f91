// SPDX-License-Identifier: MIT
#include "server/rpc/rate_limit.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/strings.h"

namespace mnemon {

RateLimit::RateLimit(double calls_per_second, const Clock& clock)
    : per_second_(calls_per_second),
      capacity_(std::max(1.0, calls_per_second)),
      clock_(clock),
      tokens_(capacity_),
      filled_(clock.Now()) {}

absl::Status RateLimit::Admit() {
  if (per_second_ == 0) return absl::OkStatus();
  std::lock_guard lock(mutex_);
  const auto now = clock_.Now();
  const double passed = std::chrono::duration<double>(now - filled_).count();
  filled_ = now;
  tokens_ = std::min(capacity_, tokens_ + passed * per_second_);
  if (tokens_ >= 1) {
    tokens_ -= 1;
    return absl::OkStatus();
  }
  // A clock of milliseconds must not bring the caller back too early.
  const double wait_ms = std::ceil((1 - tokens_) / per_second_ * 1000) + 1;
  return MakeError(absl::StatusCode::kResourceExhausted,
                   StrCat("more than ", per_second_, " calls per second"),
                   {.reason = "RATE_LIMIT",
                    .retry_after = std::chrono::milliseconds(
                        static_cast<int64_t>(std::min(wait_ms, 24.0 * 3600 * 1000)))});
}

}  // namespace mnemon
