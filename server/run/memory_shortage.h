// SPDX-License-Identifier: MIT
// How long one runner waits for memory that others give up before a call ends for want
// of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "server/run/runner_scope.h"

namespace mnemon {

// Owned by the runner's thread.
class MemoryShortage {
 public:
  // `scope` outlives it.
  explicit MemoryShortage(RunnerScope& scope) : scope_(scope) {}

  // So many blocks, and blocks of fixed entries, are not to be had. True: memory that
  // others have in reserve or just gave up, or states that they can drop, may help, and
  // the runner is woken after they are given up.
  bool Ask(int64_t blocks, int64_t fixed);
  // A call has got what it needs.
  void End() {
    short_since_.reset();
    promised_since_.reset();
  }

 private:
  using Time = std::chrono::steady_clock::time_point;

  RunnerScope& scope_;
  // Since when there has been no memory, and nobody who could give some up: by the
  // machine's clock, because other threads are waited for.
  std::optional<Time> short_since_;
  // Likewise, since when others have been giving some up.
  std::optional<Time> promised_since_;
};

}  // namespace mnemon
