// SPDX-License-Identifier: MIT
#include "server/transport/local_listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "base/strings.h"

namespace mnemon {
namespace {

// Before it tries again what has failed.
constexpr int kPauseMs = 50;

bool IsOwn(int fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.pid == getpid();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalListener>> LocalListener::Open(
    const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  Descriptor wake(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!socket.valid() || !wake.valid()) {
    return absl::ResourceExhaustedError("no descriptor left to listen with");
  }
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0) {
    return absl::UnavailableError(StrCat("a socket for calls within the process: ",
                                         std::generic_category().message(errno)));
  }
  return std::unique_ptr<LocalListener>(
      new LocalListener(std::move(socket), std::move(wake)));
}

absl::Status LocalListener::Start(OnAccept on_accept) {
  on_accept_ = std::move(on_accept);
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        StrCat("no thread for calls within the process: ", error.what()));
  }
  return absl::OkStatus();
}

void LocalListener::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
  thread_.join();
  socket_.Close();
}

void LocalListener::Run() {
  pollfd events[] = {{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                     {.fd = socket_.get(), .events = POLLIN, .revents = 0}};
  bool failed = false;
  while (true) {
    // What waits in the socket would end the pause.
    poll(events, failed ? 1 : 2, failed ? kPauseMs : -1);
    if ((events[0].revents & POLLIN) != 0) return;
    Descriptor accepted(
        accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    failed =
        !accepted.valid() && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
    if (!accepted.valid() || !IsOwn(accepted.get())) continue;
    try {
      on_accept_(std::move(accepted));
    } catch (const std::bad_alloc&) {
      // It is closed, and its peer tries again.
    }
  }
}

}  // namespace mnemon
