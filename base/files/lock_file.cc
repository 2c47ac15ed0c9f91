// SPDX-License-Identifier: MIT
#include "base/files/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/strings.h"

namespace mnemon {
namespace {

LockAttempt Failed(const char* call) { return {.call = call, .error = errno}; }

int64_t HolderIn(const Descriptor& file) {
  char text[32] = {};
  const ssize_t size = ::pread(file.get(), text, sizeof text - 1, 0);
  int64_t pid = 0;
  return size > 0 && absl::SimpleAtoi(text, &pid) && pid > 0 ? pid : 0;
}

}  // namespace

LockAttempt TryLockFile(const std::string& path) {
  Descriptor file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return Failed("open");
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    LockAttempt failed = Failed("lock");
    if (failed.error == EWOULDBLOCK) failed.holder = HolderIn(file);
    return failed;
  }
  const std::string pid = StrCat(::getpid(), "\n");
  const auto size = static_cast<ssize_t>(pid.size());
  // In this order a full disk does not matter if the file had a holder before.
  const ssize_t written = ::pwrite(file.get(), pid.data(), pid.size(), 0);
  if (written >= 0 && written < size) errno = ENOSPC;
  if (written < size || ::ftruncate(file.get(), size) != 0) return Failed("write");
  return {.file = std::move(file)};
}

int64_t HolderOfLockFile(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  return file.valid() ? HolderIn(file) : 0;
}

}  // namespace mnemon
