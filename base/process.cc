// SPDX-License-Identifier: MIT
#include "base/process.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include <cerrno>
#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "base/check.h"

namespace mnemon {
namespace {

#if defined(__SSE2__)
constexpr unsigned kFlushBits = 0x8040;  // MXCSR: flush-to-zero, denormals-are-zero
bool FlushBitsSet() { return (_mm_getcsr() & kFlushBits) == kFlushBits; }
void SetFlushBits() { _mm_setcsr(_mm_getcsr() | kFlushBits); }
#elif defined(__aarch64__)
constexpr uint64_t kFlushBits = uint64_t{1} << 24;  // FPCR.FZ
uint64_t ReadFpcr() {
  uint64_t value;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
bool FlushBitsSet() { return (ReadFpcr() & kFlushBits) != 0; }
void SetFlushBits() { asm volatile("msr fpcr, %0" : : "r"(ReadFpcr() | kFlushBits)); }
#else
#error "no way known to flush denormals on this processor"
#endif

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

void InitProcess() {
  SetFlushBits();
  signal(SIGPIPE, SIG_IGN);
  rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
}

bool DenormalsFlushed() { return FlushBitsSet(); }

SignalWaiter::SignalWaiter() {
  sigset_t signals = StopSignals();
  MNEMON_CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0);
}

int SignalWaiter::Wait() {
  sigset_t signals = StopSignals();
  int signal = 0;
  MNEMON_CHECK(sigwait(&signals, &signal) == 0);
  return signal;
}

int SignalWaiter::WaitFor(int timeout_ms) {
  sigset_t signals = StopSignals();
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t deadline = now.tv_sec * 1000 + now.tv_nsec / 1000000 + timeout_ms;
  while (true) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t left = deadline - (now.tv_sec * 1000 + now.tv_nsec / 1000000);
    if (left < 0) left = 0;
    timespec wait = {.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000};
    int signal = sigtimedwait(&signals, nullptr, &wait);
    if (signal > 0) return signal;
    // A debugger or another signal interrupts the wait; only the time ends it.
    if (errno != EINTR) return 0;
  }
}

std::string VersionText(const std::string& binary, const std::string& libraries) {
  return binary + " " MNEMON_VERSION " (commit " MNEMON_COMMIT +
         (libraries.empty() ? "" : ", " + libraries) + ")";
}

}  // namespace mnemon
