// SPDX-License-Identifier: MIT
// The loss of a decoder's device and its return: its states are lost, too, and are
// computed again from the histories.
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
  // Whether the device is there. Tries to restart a lost one, when it is time.
  bool Restore();

 private:
  absl::Status Restart();

  RunnerScope& scope_;
  CallEnds& ends_;
  const std::function<void()> on_clean_;
};

}  // namespace mnemon
