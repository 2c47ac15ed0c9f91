// SPDX-License-Identifier: MIT
#include "server/transport/connection.h"

// The system's own header: glibc's copy of tcp_info lacks the counts of bytes.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "server/transport/peer_text.h"

namespace mnemon {

const char* Name(ShutDownReason reason) {
  switch (reason) {
    case ShutDownReason::kCalls:
      return "calls";
    case ShutDownReason::kResets:
      return "resets";
    case ShutDownReason::kTraffic:
      return "traffic";
    case ShutDownReason::kMemory:
      return "memory";
    case ShutDownReason::kSilent:
      return "silent";
    case ShutDownReason::kIdle:
      return "idle";
    case ShutDownReason::kEnd:
      break;
  }
  return "end";
}

bool IsAbuse(ShutDownReason reason) { return reason < ShutDownReason::kSilent; }

Connection::Connection(std::string peer, Descriptor handle, int64_t most_calls,
                       Time now, double allowance)
    : peer_(std::move(peer)),
      host_(HostOf(peer_)),
      handle_(std::move(handle)),
      allowance_(allowance),
      most_calls_(std::max<int64_t>(
          1, static_cast<int64_t>(allowance * static_cast<double>(most_calls)))),
      accepted_(now),
      idle_since_(now.time_since_epoch().count()) {}

void Connection::OnCallBegan() {
  counts_->calls_begun_.fetch_add(1, std::memory_order_relaxed);
  if (counts_->calls_open_.fetch_add(1, std::memory_order_relaxed) >= most_calls_) {
    ShutDown(ShutDownReason::kCalls);
  }
}

void Connection::OnCallEnded(bool cancelled, int64_t held) {
  if (cancelled) counts_->calls_cancelled_.fetch_add(1, std::memory_order_relaxed);
  counts_->held_bytes_.fetch_sub(held, std::memory_order_relaxed);
  if (counts_->calls_open_.fetch_sub(1, std::memory_order_relaxed) == 1) {
    idle_since_ = std::chrono::steady_clock::now().time_since_epoch().count();
  }
}

bool Connection::arriving(Time now) const {
  // Its bytes are counted a few times in a second.
  constexpr std::chrono::milliseconds kCounted{500};
  return pace_.Kept(now, kCounted) && now - idle_since() < kLongestArrival;
}

void Connection::NoteReceived(int64_t bytes, Time now) {
  if (bytes >= kClientGreetingBytes) greeted_.store(true, std::memory_order_relaxed);
  pace_.Note(bytes, now);
}

void Connection::OnMessageReceived(int64_t bytes) {
  counts_->messages_received_.fetch_add(1, std::memory_order_relaxed);
  counts_->message_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  counts_->held_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

void Connection::OnMessageSent() {
  counts_->messages_sent_.fetch_add(1, std::memory_order_relaxed);
}

SocketReading Connection::Read() const { return ReadSocket(handle_.get()); }

ConnectionUse Connection::UseCounts::Read() const {
  return {.calls_begun = calls_begun_.load(std::memory_order_relaxed),
          .calls_open = calls_open_.load(std::memory_order_relaxed),
          .calls_cancelled = calls_cancelled_.load(std::memory_order_relaxed),
          .messages_received = messages_received_.load(std::memory_order_relaxed),
          .message_bytes = message_bytes_.load(std::memory_order_relaxed),
          .held_bytes = held_bytes_.load(std::memory_order_relaxed),
          .messages_sent = messages_sent_.load(std::memory_order_relaxed)};
}

SocketReading ReadSocket(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  constexpr int kClosed = 7;  // TCP_CLOSE, which this header does not have
  return {.received_bytes = static_cast<int64_t>(info.tcpi_bytes_received),
          .acked_bytes = static_cast<int64_t>(info.tcpi_bytes_acked),
          .sent_bytes = static_cast<int64_t>(info.tcpi_bytes_sent),
          .closed = info.tcpi_state == kClosed};
}

int64_t Connection::unread_bytes() const {
  int bytes = 0;
  return ioctl(handle_.get(), FIONREAD, &bytes) == 0 ? bytes : 0;
}

bool Connection::ShutDown(ShutDownReason reason) {
  int none = -1;
  if (!shut_down_.compare_exchange_strong(none, static_cast<int>(reason))) return false;
  const SocketReading socket = Read();
  // Unlike shutdown it also drops what was received and not read yet, which after a
  // flood are megabytes of frames.
  const sockaddr nowhere = {.sa_family = AF_UNSPEC, .sa_data = {}};
  connect(handle_.get(), &nowhere, sizeof(nowhere));
  const ConnectionUse now = use();
  LogEvent(IsAbuse(reason) ? LogLevel::kWarning : LogLevel::kInfo,
           "connection_shut_down",
           {{"peer", peer_},
            {"reason", Name(reason)},
            {"received_bytes", socket.received_bytes},
            {"calls", now.calls_begun},
            {"calls_open", now.calls_open},
            {"calls_cancelled", now.calls_cancelled},
            {"messages", now.messages_received}});
  return true;
}

std::optional<ShutDownReason> Connection::shut_down() const {
  const int reason = shut_down_;
  if (reason < 0) return std::nullopt;
  return static_cast<ShutDownReason>(reason);
}

}  // namespace mnemon
