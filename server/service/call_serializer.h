// SPDX-License-Identifier: MIT
// A non-blocking lock for the progress of one handler, which several threads drive: the
// engine, its door, a shutdown.
//
// Invariant: at most one holder. Only the holder starts a write or finishes the call,
// and it stays the holder while a write is in flight. The holder that finishes the call
// never releases the lock, so no thread acquires it afterwards, and the handler, which
// may be destroyed by then, is not touched by a late notification. Shared between the
// handler and all that notify it.
#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"

namespace mnemon {

// Safe for concurrent use. Held when constructed.
class CallSerializer {
 public:
  // True: the caller holds the lock now. False: the present holder will check for work
  // again before it releases, or the call is over.
  bool Acquire() {
    std::lock_guard lock(mutex_);
    return AcquireLocked();
  }

  // As Acquire, and requests the end of the call with `status`; the first such request
  // counts.
  bool AcquireToStop(const absl::Status& status) {
    std::lock_guard lock(mutex_);
    if (!stop_) stop_ = status;
    return AcquireLocked();
  }

  // False: another thread called Acquire meanwhile; the caller still holds the lock and
  // must check for work again.
  bool Release() {
    std::lock_guard lock(mutex_);
    if (std::exchange(again_, false)) return false;
    held_ = false;
    return true;
  }

  // Before a write, whose callback is the next holder: orders what this one did before
  // what that one does. gRPC does so too, where ThreadSanitizer does not see it.
  void PassOn() { std::lock_guard lock(mutex_); }

  // The requested end of the call.
  std::optional<absl::Status> stop() const {
    std::lock_guard lock(mutex_);
    return stop_;
  }

 private:
  bool AcquireLocked() {
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
