// SPDX-License-Identifier: MIT
// What a runner publishes after each round for other threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "server/admission/admission_queue.h"

namespace mnemon {

struct RunnerCounts {
  using Time = std::chrono::steady_clock::time_point;

  int64_t running_named = 0;        // running calls on sessions
  AdmissionQueue::Running running;  // see there
  int64_t delivering = 0;
  int64_t unread = 0;  // of them, those whose consumers do not read
  int64_t stalled = 0;
  // Since when calls have waited for blocks, and none has got any.
  std::optional<Time> blocked_since;
  // By when one of the calls with a permit should have ended; absent: none has to.
  std::optional<Time> due;
  bool device_lost = false;
  int64_t resting = 0;  // named sessions at rest that have a state
  int64_t state_bytes = 0;
  int64_t running_state_bytes = 0;
  int64_t shadow_bytes = 0;
  int64_t steps = 0;
  int64_t tokens_computed = 0;
  int64_t tokens_generated = 0;
  int64_t preemptions = 0;
};

}  // namespace mnemon
