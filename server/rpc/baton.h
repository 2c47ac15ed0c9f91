// SPDX-License-Identifier: MIT
// Who may act on a reactor that several threads want to move on.
//
// Invariant: at most one holder. Only the holder starts a write or finishes the call,
// and it keeps the baton while a write is in flight. The holder that finishes the call
// never releases it, so nobody takes it afterwards, and the reactor, which may be gone
// by then, is not touched by a late notification. Shared between the reactor and
// everybody who notifies it.
#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"

namespace mnemon {

// Safe for concurrent use. Born held.
class Baton {
 public:
  // True: the caller is the holder now. False: the present holder looks again before it
  // releases, or the call is over.
  bool Take() {
    std::lock_guard lock(mutex_);
    return TakeLocked();
  }

  // Asks for the end of the call with `status`; the first wish counts. Else as Take.
  bool TakeToStop(const absl::Status& status) {
    std::lock_guard lock(mutex_);
    if (!stop_) stop_ = status;
    return TakeLocked();
  }

  // False: somebody asked meanwhile, the caller is still the holder and looks again.
  bool Release() {
    std::lock_guard lock(mutex_);
    if (std::exchange(again_, false)) return false;
    held_ = false;
    return true;
  }

  std::optional<absl::Status> stop() const {
    std::lock_guard lock(mutex_);
    return stop_;
  }

 private:
  bool TakeLocked() {
    if (held_) {
      again_ = true;
      return false;
    }
    return held_ = true;
  }

  mutable std::mutex mutex_;
  bool held_ = true;                  // guarded by mutex_
  bool again_ = false;                // guarded by mutex_
  std::optional<absl::Status> stop_;  // guarded by mutex_
};

}  // namespace mnemon
