// SPDX-License-Identifier: MIT
// A file locked by one process at a time, which it names. The lock is an flock: the
// system releases it when the process ends in any way.
#pragma once

#include <cstdint>
#include <string>

#include "base/descriptor.h"

namespace mnemon {

// Result of an attempt to lock.
struct LockAttempt {
  Descriptor file = Descriptor();  // valid: locked until it is closed
  // On failure: the call that failed, and its errno. EWOULDBLOCK of "lock": this or
  // another process holds it.
  const char* call = "";
  int error = 0;
  int64_t holder = 0;  // its process; 0: unknown
};

// Creates the file if needed, readable by its owner only, and overwrites it. It stays
// when the lock is released. A symbolic link is not followed: ELOOP of "open".
LockAttempt TryLockFile(const std::string& path);

// The process named in the file, whether locked or not; 0: unknown.
int64_t HolderOfLockFile(const std::string& path);

}  // namespace mnemon
