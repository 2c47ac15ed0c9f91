// SPDX-License-Identifier: MIT
// The check of a call before any work is done for it: its deadline, and the number of
// calls per second over all callers.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/token_bucket.h"
#include "server/service/caller.h"

namespace mnemon {

// Safe for concurrent use.
class Admission {
 public:
  // As many calls as a second brings, at least one, are admitted at once. 0 = any
  // number. REQUIRES: finite, not negative; `clock` outlives it.
  Admission(double calls_per_second, const Clock& clock);

  // DEADLINE_EXCEEDED; RESOURCE_EXHAUSTED, RATE_LIMIT, with the time until the next
  // call can be admitted.
  absl::Status Admit(const Caller& caller);

 private:
  const double per_second_;
  const Clock& clock_;
  std::optional<TokenBucket> bucket_;  // absent: any number
};

}  // namespace mnemon
