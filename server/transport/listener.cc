// SPDX-License-Identifier: MIT
#include "server/transport/listener.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iterator>
#include <new>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/transport/peer_text.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr int kAcceptsAtOnce = 64;
constexpr int kEventsAtOnce = 256;
// Before the listening sockets are polled again after a failure.
constexpr milliseconds kFailurePause{50};
// For what may be missed: a connection whose end was not reported.
constexpr milliseconds kLongestSleep{1000};
constexpr int64_t kSpareDescriptors = 64;
// Between searches of all connections for so many idle ones.
constexpr milliseconds kIdleCheck{20};
constexpr size_t kIdleAtOnce = 64;
// The ends of calls are noticed a little later than that of their connection.
constexpr milliseconds kClassifyDelay{100};
constexpr int64_t kMostWaiting = 1024;  // in AddressPace

bool OutOfDescriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

Descriptor Reserve() { return Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

void SetOptions(int fd) {
  const int on = 1;
  const auto timeout = static_cast<unsigned>(Listener::kUserTimeout.count());
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

// The address of a listening socket, with the loopback address in place of any address.
sockaddr_storage OwnAddress(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  if (address.ss_family == AF_INET) {
    sockaddr_in four;
    std::memcpy(&four, &address, sizeof(four));
    if (four.sin_addr.s_addr == INADDR_ANY) {
      four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    std::memcpy(&address, &four, sizeof(four));
  } else {
    sockaddr_in6 six;
    std::memcpy(&six, &address, sizeof(six));
    if (IN6_IS_ADDR_UNSPECIFIED(&six.sin6_addr)) six.sin6_addr = in6addr_loopback;
    std::memcpy(&address, &six, sizeof(six));
  }
  return address;
}

// Empty when the peer has gone.
std::string PeerOf(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  return PeerText(address);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(const ListenAddress& address,
                                                         ConnectionTable& table,
                                                         const Options& options) {
  MNEMON_ASSIGN_OR_RETURN(ListeningSockets listening, Listen(address, "listen"));
  std::unique_ptr<Listener> listener(
      new Listener(address, table, options, std::move(listening)));
  if (!listener->epoll_.valid() || !listener->wake_.valid() ||
      !listener->reserve_.valid()) {
    return absl::ResourceExhaustedError("no descriptor left to listen with");
  }
  return listener;
}

Listener::Listener(const ListenAddress& address, ConnectionTable& table,
                   const Options& options, ListeningSockets listening)
    : address_{.host = address.host, .port = listening.port},
      table_(table),
      options_(options),
      own_address_(OwnAddress(listening.sockets.front().get())),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      listening_(std::move(listening)),
      reserve_(Reserve()),
      pace_(static_cast<size_t>(std::min(kMostWaiting, table.counts().limit / 8))),
      bucket_(options.accepts_per_second, options.accepts_per_second) {}

Listener::~Listener() {
  StopAccepting();
  stopping_ = true;
  Wake();
  if (thread_.joinable()) thread_.join();
}

absl::Status Listener::Start(OnAccept on_accept) {
  {
    std::lock_guard lock(mutex_);
    on_accept_ = std::move(on_accept);
  }
  Watch(wake_.get(), EPOLLIN);
  PollListening(true);
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(StrCat("no thread to listen: ", error.what()));
  }
  return absl::OkStatus();
}

void Listener::StopAccepting() {
  std::lock_guard lock(mutex_);
  on_accept_ = nullptr;
}

void Listener::Reopen() {
  reopen_ = true;
  Wake();
}

void Listener::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

void Listener::Watch(int fd, uint32_t events) {
  epoll_event event = {.events = events, .data = {.fd = fd}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void Listener::PollListening(bool on) {
  if (std::exchange(polling_, on) == on) return;
  for (const Descriptor& socket : listening_.sockets) {
    if (on) {
      Watch(socket.get(), EPOLLIN);
    } else {
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket.get(), nullptr);
    }
  }
}

void Listener::Run() {
  epoll_event events[kEventsAtOnce];
  while (!stopping_) {
    Connection::Time until = SteadyClock::now() + kLongestSleep;
    if (resume_) until = std::min(until, *resume_);
    if (const auto due = pace_.NextDue()) until = std::min(until, *due);
    if (!ended_.empty()) until = std::min(until, ended_.front().classify_at);
    const auto sleep = std::chrono::ceil<milliseconds>(until - SteadyClock::now());
    const int count = epoll_wait(epoll_.get(), events, kEventsAtOnce,
                                 static_cast<int>(std::max<int64_t>(0, sleep.count())));
    if (reopen_.exchange(false)) ReopenSockets();
    if (resume_ && SteadyClock::now() >= *resume_) {
      resume_.reset();
      // For the connection that was handed on when there was no token.
      bucket_.Take(SteadyClock::now());
      PollListening(true);
    }
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == wake_.get()) {
        uint64_t ignored;
        while (read(wake_.get(), &ignored, sizeof(ignored)) > 0) {
        }
      } else if (open_.contains(fd)) {
        Forget(fd);
      } else if (polling_) {
        AcceptSome(fd);
      }
    }
    ClassifyEnded();
    while (auto due = pace_.TakeDue(SteadyClock::now())) HandOn(*std::move(due));
  }
}

void Listener::ReopenSockets() {
  PollListening(false);
  listening_.sockets.clear();
  absl::StatusOr<ListeningSockets> opened = Listen(address_, "listen");
  if (opened.ok()) {
    listening_ = *std::move(opened);
    LogWarning(StrCat("listening anew on ", address_.Text()));
  } else {
    LogError(std::string(opened.status().message()));
    reopen_ = true;
    resume_ = SteadyClock::now() + kFailurePause;
  }
  PollListening(true);
}

void Listener::AcceptSome(int listening) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    Descriptor accepted(
        accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!accepted.valid()) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      if (OutOfDescriptors(errno)) return RefuseWaiting(listening);
      continue;  // the peer has gone
    }
    table_.SetPaused(false);
    Take(std::move(accepted));
    if (!polling_) return;
  }
}

void Listener::Take(Descriptor accepted) try {
  SetOptions(accepted.get());
  std::string peer = PeerOf(accepted.get());
  if (peer.empty()) return;
  const std::string host = HostOf(peer);
  const auto now = SteadyClock::now();
  AddressPace::Waiting taken = {std::move(accepted), std::move(peer), now};
  if (table_.Expected(taken.peer) || pace_.Take(host, now)) {
    HandOn(std::move(taken));
  } else if (pace_.Add(host, std::move(taken)) > 0) {
    table_.CountRefused(RefusalReason::kPace);
  }
} catch (const std::exception& error) {
  LogEvent(LogLevel::kError, "accept", {{"exception", error.what()}});
}

void Listener::ClassifyEnded() {
  const auto now = SteadyClock::now();
  for (; !ended_.empty() && ended_.front().classify_at <= now; ended_.pop_front()) {
    const Ended& ended = ended_.front();
    pace_.Count(ended.host,
                Classify(ended.shut_down, ended.socket, ended.counts->Read(), ended.age,
                         options_.traffic),
                now);
  }
}

// Memory may run out: this peer is refused, later ones may not be.
void Listener::HandOn(AddressPace::Waiting taken) try {
  const auto now = SteadyClock::now();
  Descriptor handle(fcntl(taken.accepted.get(), F_DUPFD_CLOEXEC, 0));
  if (!handle.valid()) return table_.CountRefused(RefusalReason::kDescriptors);
  const auto connection = std::make_shared<Connection>(
      taken.peer, std::move(handle), options_.calls_per_connection, now,
      pace_.Allowance(HostOf(taken.peer), now));
  if (!MakeRoom(*connection)) return;
  std::lock_guard lock(mutex_);
  if (!on_accept_) return;
  open_.emplace(connection->handle(), connection);
  table_.Add(connection);
  // Ends are always reported; edges, because the handle stays open after one.
  Watch(connection->handle(), EPOLLET);
  on_accept_(std::move(taken.accepted));
  // To refuse is cheap, so only connections that are handed on count.
  if (const std::chrono::nanoseconds wait = bucket_.Take(now); wait.count() > 0) {
    PollListening(false);
    resume_ = now + wait;
  }
} catch (const std::exception& error) {
  LogEvent(LogLevel::kError, "accept", {{"exception", error.what()}});
}

bool Listener::MakeRoom(const Connection& connection) {
  const std::optional<RefusalReason> full = table_.WhyFull(connection);
  if (!full) return true;
  const auto idle =
      TakeIdle(full == RefusalReason::kHostLimit ? connection.host() : "");
  if (idle == nullptr) {
    table_.CountRefused(*full);
    return false;
  }
  idle->ShutDown(ShutDownReason::kIdle);
  Forget(idle->handle());
  return true;
}

std::shared_ptr<Connection> Listener::TakeIdle(const std::string& host) {
  const auto now = SteadyClock::now();
  if ((idle_.empty() || host != idle_host_) && now - idle_checked_ >= kIdleCheck) {
    idle_ = table_.LongestIdle(host, now - kIdle, kIdleAtOnce);
    std::reverse(idle_.begin(), idle_.end());
    idle_host_ = host;
    idle_checked_ = now;
  }
  while (host == idle_host_ && !idle_.empty()) {
    const auto connection = std::move(idle_.back());
    idle_.pop_back();
    if (connection->idle() && !connection->arriving(now) &&
        open_.contains(connection->handle())) {
      return connection;
    }
  }
  return nullptr;
}

void Listener::RefuseWaiting(int listening) {
  table_.SetPaused(true);
  reserve_.Close();
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    const Descriptor refused(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
    if (!refused.valid()) break;
    table_.CountRefused(RefusalReason::kDescriptors);
  }
  reserve_ = Reserve();
  // Else an endless round while there is no descriptor.
  PollListening(false);
  resume_ = SteadyClock::now() + kFailurePause;
}

void Listener::Forget(int handle) {
  const auto found = open_.find(handle);
  if (found == open_.end()) return;
  // The handle is closed when its last user has gone, perhaps later.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, handle, nullptr);
  const Connection& connection = *found->second;
  const auto now = SteadyClock::now();
  const auto reason = connection.shut_down();
  if (reason && IsAbuse(*reason)) {
    pace_.Count(connection.host(), ConnectionOutcome::kAbusive, now);
  } else {
    try {
      ended_.push_back({connection.host(), reason, connection.Read(),
                        now - connection.accepted(), connection.counts(),
                        now + kClassifyDelay});
    } catch (const std::bad_alloc&) {
      // It is not classified.
    }
  }
  table_.Remove(connection);
  open_.erase(found);
}

int64_t ConnectionsFor(int64_t descriptors, int64_t open) {
  return std::max<int64_t>(1, (descriptors - open - kSpareDescriptors) / 2);
}

int64_t DescriptorLimit() {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return 1024;
  return static_cast<int64_t>(std::min<rlim_t>(files.rlim_cur, 1 << 30));
}

int64_t OpenDescriptors() {
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  return std::max<int64_t>(0, std::distance(begin(open), end(open)) - 1);  // its own
}

}  // namespace mnemon
