// SPDX-License-Identifier: MIT
#include "tests/model/watch/lock_count.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>

namespace mnemon {
namespace {

// Thread-local storage of the initial-exec model does not allocate on first use.
thread_local int64_t locks __attribute__((tls_model("initial-exec"))) = 0;

}  // namespace

int64_t CountLocks() { return locks; }

}  // namespace mnemon

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using Lock = int (*)(pthread_mutex_t*);
  static std::atomic<Lock> lock{nullptr};
  Lock system = lock.load(std::memory_order_relaxed);
  if (system == nullptr) {
    system = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
    lock.store(system, std::memory_order_relaxed);
  }
  ++mnemon::locks;
  return system(mutex);
}

#endif
