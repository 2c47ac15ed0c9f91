// SPDX-License-Identifier: MIT
// A file that one process at a time holds locked, and which names that process. The
// lock is an flock: the system drops it when the process ends, however it ends.
#pragma once

#include <cstdint>
#include <string>

#include "base/descriptor.h"

namespace mnemon {

// What came of an attempt to lock.
struct LockAttempt {
  Descriptor file = Descriptor();  // valid: locked until it is closed
  // Else the call that failed, and its errno; EWOULDBLOCK of "lock": another process
  // holds it, or this one already does.
  const char* call = "";
  int error = 0;
  int64_t holder = 0;  // that process; 0: unknown
};

// Makes the file where there is none, for its owner alone, and overwrites it. It stays
// when the lock is dropped. A symbolic link is not followed: ELOOP of "open".
LockAttempt TryLockFile(const std::string& path);

// The process that the file names, locked or not; 0: unknown.
int64_t HolderOfLockFile(const std::string& path);

}  // namespace mnemon
