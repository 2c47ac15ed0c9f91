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
  static constexpr const char* kNames[kShutDownReasons] = {
      "calls", "resets", "traffic", "memory", "silent", "idle", "end"};
  return kNames[static_cast<size_t>(reason)];
}

ConnectionUse UseCounts::Read() const {
  return {.calls_begun = calls_begun,
          .calls_open = calls_open,
          .calls_cancelled = calls_cancelled,
          .messages_received = messages_received,
          .message_bytes = message_bytes,
          .held_bytes = held_bytes,
          .messages_sent = messages_sent};
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
  ++counts_->calls_begun;
  if (++counts_->calls_open > most_calls_) ShutDown(ShutDownReason::kCalls);
}

void Connection::OnCallEnded(bool cancelled, int64_t held) {
  if (cancelled) ++counts_->calls_cancelled;
  counts_->held_bytes -= held;
  if (--counts_->calls_open == 0) {
    idle_since_ = std::chrono::steady_clock::now().time_since_epoch().count();
  }
}

void Connection::OnMessageReceived(int64_t bytes) {
  ++counts_->messages_received;
  counts_->message_bytes += bytes;
  counts_->held_bytes += bytes;
}

bool Connection::arriving(Time now) const {
  // Its bytes are counted a few times in a second.
  constexpr std::chrono::milliseconds kCounted{500};
  return pace_.Kept(now, kCounted) && now - idle_since() < kLongestArrival;
}

void Connection::NoteReceived(int64_t bytes, Time now) {
  if (bytes >= kClientGreetingBytes) greeted_ = true;
  pace_.Note(bytes, now);
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
