// SPDX-License-Identifier: MIT
// operator new ends in malloc or aligned_alloc, so counting those counts everything.
#include "bench/kernels/allocation_count.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MNEMON_COUNTS_ALLOCATIONS 1
#else
#define MNEMON_COUNTS_ALLOCATIONS 0
#endif

namespace mnemon {
namespace {

std::atomic<int64_t> calls{0};
std::atomic<int64_t> bytes{0};
// Thread-local storage of the initial-exec model does not allocate on first use.
thread_local AllocationCount of_thread __attribute__((tls_model("initial-exec")));

}  // namespace

bool CountsAllocations() { return MNEMON_COUNTS_ALLOCATIONS; }

AllocationCount CountAllocations() {
  return {.calls = calls.load(std::memory_order_relaxed),
          .bytes = bytes.load(std::memory_order_relaxed)};
}

AllocationCount CountAllocationsOfThread() { return of_thread; }

#if MNEMON_COUNTS_ALLOCATIONS

static void Count(size_t size) {
  calls.fetch_add(1, std::memory_order_relaxed);
  bytes.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
  ++of_thread.calls;
  of_thread.bytes += static_cast<int64_t>(size);
}

#endif

}  // namespace mnemon

#if MNEMON_COUNTS_ALLOCATIONS

// glibc's own functions under the names provided for replacements. free is not
// replaced.
extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier)
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
// NOLINTEND(bugprone-reserved-identifier)

void* malloc(size_t size) {
  mnemon::Count(size);
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  mnemon::Count(count * size);
  return __libc_calloc(count, size);
}

void* realloc(void* old, size_t size) {
  mnemon::Count(size);
  return __libc_realloc(old, size);
}

void* memalign(size_t alignment, size_t size) {
  mnemon::Count(size);
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  mnemon::Count(size);
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** out, size_t alignment, size_t size) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) {
    return EINVAL;
  }
  mnemon::Count(size);
  void* const got = __libc_memalign(alignment, size);
  if (got == nullptr) return ENOMEM;
  *out = got;
  return 0;
}

}  // extern "C"

#endif
