// SPDX-License-Identifier: MIT
// What follows when the device of a decoder is lost: its states are, too, and are
// computed again from the histories when it is back.
#pragma once

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "server/run/call_ends.h"
#include "server/run/runner_scope.h"

namespace mnemon {

// Owned by the runner's thread.
class DeviceRecovery {
 public:
  // `on_clean`: of the arena. Both others outlive it.
  DeviceRecovery(RunnerScope& scope, CallEnds& ends, std::function<void()> on_clean)
      : scope_(scope), ends_(ends), on_clean_(std::move(on_clean)) {}

  // Ends the calls that run. The others go on when the device is back.
  void Lose();
  // Whether the device is there, or back just now: tries to restart a lost one, when it
  // is time.
  bool Restore();

 private:
  absl::Status Restart();
  void DropAllStates();

  RunnerScope& scope_;
  CallEnds& ends_;
  const std::function<void()> on_clean_;
};

}  // namespace mnemon
