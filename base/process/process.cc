// SPDX-License-Identifier: MIT
#include "base/process/process.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "absl/synchronization/mutex.h"
#include "base/check.h"

namespace mnemon {
namespace {

// Signals on their way from the handler to the waiter, one byte each.
int signal_pipe[2] = {-1, -1};

void ForwardSignal(int signal) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(signal);
  // A full pipe holds more signals than are ever read.
  [[maybe_unused]] ssize_t written = write(signal_pipe[1], &byte, 1);
  errno = saved;
}

}  // namespace

void InitProcess() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
}

void ReturnFreedMemory() {
  // The default is eight per core, and each keeps its own free memory.
  mallopt(M_ARENA_MAX, 4);
  // Setting it also stops its growth with the largest piece that was ever freed.
  mallopt(M_MMAP_THRESHOLD, 8 << 20);
  mallopt(M_TRIM_THRESHOLD, 16 << 20);
}

SignalWaiter::SignalWaiter() {
  if (signal_pipe[0] >= 0) return;
  MNEMON_CHECK(pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) == 0);
  struct sigaction action = {};
  action.sa_handler = ForwardSignal;
  action.sa_flags = SA_RESTART;
  MNEMON_CHECK(sigaction(SIGINT, &action, nullptr) == 0);
  MNEMON_CHECK(sigaction(SIGTERM, &action, nullptr) == 0);
  struct sigaction hangup;
  MNEMON_CHECK(sigaction(SIGHUP, nullptr, &hangup) == 0);
  if (hangup.sa_handler == SIG_IGN) return;
  MNEMON_CHECK(sigaction(SIGHUP, &action, nullptr) == 0);
}

int SignalWaiter::Wait() {
  while (true) {
    if (const int signal = WaitFor(-1)) return signal;
  }
}

int SignalWaiter::WaitFor(int timeout_ms) {
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    int left = timeout_ms;
    if (timeout_ms > 0) {
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::steady_clock::now() - start);
      left = static_cast<int>(std::max<int64_t>(0, timeout_ms - waited.count()));
    }
    pollfd ready = {.fd = signal_pipe[0], .events = POLLIN, .revents = 0};
    const int events = poll(&ready, 1, left);
    unsigned char signal;
    if (events > 0 && read(signal_pipe[0], &signal, 1) == 1) return signal;
    // The signal itself interrupts the wait; only its byte or the time ends it.
    if (events == 0) return 0;
  }
}

void NotifyServiceManager(const std::string& state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address = {};
  const size_t size = path == nullptr ? 0 : std::strlen(path);
  if (size < 2 || size >= sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path, size);
  // An abstract name starts with NUL, written as '@'.
  if (path[0] == '@') address.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const socklen_t length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size);
  // Without a listener nobody receives an error either.
  (void)sendto(fd, state.data(), state.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), length);
  close(fd);
}

std::string Version() { return MNEMON_VERSION; }

std::string Commit() { return MNEMON_COMMIT; }

std::string VersionText(const std::string& binary, const std::string& libraries) {
  return binary + " " MNEMON_VERSION " (commit " MNEMON_COMMIT +
         (libraries.empty() ? "" : ", " + libraries) + ")";
}

}  // namespace mnemon
