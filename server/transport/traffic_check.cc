// SPDX-License-Identifier: MIT
#include "server/transport/traffic_check.h"

#include <algorithm>

namespace mnemon {
namespace {

// What any connection may send beyond its calls: preface, settings, pings.
constexpr int64_t kFreeBytes = 64 << 10;
constexpr int64_t kFreeBytesPerSecond = 64 << 10;
// A message may be encoded in more bytes than it needs.
constexpr int64_t kBytesPerMessageByte = 2;
// Frame headers and window updates of one message.
constexpr int64_t kBytesPerMessage = 128;
// Window updates and acknowledgements of pings follow what was sent.
constexpr int64_t kSentBytesPerByte = 8;
// Refused messages, too large or malformed, of streams that have ended. Headers without
// end get less, since gRPC reads them in a time that grows with their square.
constexpr int64_t kRefusedMessages = 4;
constexpr int64_t kIncompleteBytes = 256 << 10;
// Sent by a server that has greeted its peer (SETTINGS, and their acknowledgement), and
// sent no window update: no more data than the first window may come.
constexpr int64_t kGreetingBytes = 64;
constexpr int64_t kFirstWindow = 64 << 10;
// The largest window update that gRPC sends.
constexpr int64_t kWindowUpdateBytes = 1536 << 10;
// Streams that may end without a call, and calls that may be cancelled, by one peer.
constexpr int64_t kFreeResets = 500;
constexpr int64_t kFreeResetsPerSecond = 100;
constexpr int64_t kResetsPerCall = 10;  // that was not cancelled

int64_t WholeSeconds(std::chrono::nanoseconds age) {
  return std::chrono::duration_cast<std::chrono::seconds>(age).count();
}

}  // namespace

int64_t UnaccountedBytes(const SocketReading& socket, const ConnectionUse& use,
                         std::chrono::nanoseconds age, const TrafficLimits& limits) {
  const int64_t accounted =
      kBytesPerMessageByte * use.message_bytes + use.calls_begun * limits.header_bytes +
      (use.messages_received + use.messages_sent) * kBytesPerMessage +
      socket.acked_bytes / kSentBytesPerByte + kFreeBytes +
      kFreeBytesPerSecond * WholeSeconds(age);
  return std::max<int64_t>(0, socket.received_bytes - accounted);
}

bool IsSilent(const SocketReading& socket, std::chrono::nanoseconds age,
              const TrafficLimits& limits) {
  return socket.received_bytes < kClientGreetingBytes && age > limits.greeting &&
         !socket.closed;
}

int64_t UnansweredBytes::Update(const SocketReading& socket, int64_t unaccounted) {
  if (socket.sent_bytes != sent_) {
    sent_ = socket.sent_bytes;
    unaccounted_ = unaccounted;
  }
  unaccounted_ = std::min(unaccounted_, unaccounted);
  return unaccounted - unaccounted_;
}

int64_t InFlightBytes(int64_t unaccounted, const std::optional<StreamCounts>& streams,
                      const TrafficLimits& limits) {
  if (!streams) return unaccounted;
  return std::min(unaccounted,
                  streams->open() * (limits.message_bytes + limits.header_bytes));
}

std::optional<ShutDownReason> CheckTraffic(const Traffic& traffic,
                                           const TrafficLimits& limits) {
  const ConnectionUse& use = traffic.use;
  const auto allowed = [&](int64_t limit) {
    return static_cast<int64_t>(traffic.allowance * static_cast<double>(limit));
  };
  const StreamCounts streams = traffic.streams.value_or(StreamCounts{});
  const int64_t finished =
      std::max<int64_t>(0, use.calls_begun - use.calls_open - use.calls_cancelled);
  // Streams that have ended without the end of a call: it never began, was cancelled,
  // or is about to be.
  const int64_t resets = std::max(use.calls_cancelled, streams.ended - finished);
  const int64_t free_resets =
      allowed(kFreeResets + kFreeResetsPerSecond * WholeSeconds(traffic.age)) +
      kResetsPerCall * finished;
  if (resets > free_resets) return ShutDownReason::kResets;
  if (traffic.unanswered > kWindowUpdateBytes) return ShutDownReason::kTraffic;
  int64_t most = limits.connection_bytes;
  if (traffic.streams) {
    if (streams.open() > allowed(limits.streams)) return ShutDownReason::kCalls;
    most = std::min(
        most, allowed(kIncompleteBytes) +
                  std::min(streams.ended, kRefusedMessages) * limits.message_bytes +
                  streams.open() * (limits.message_bytes + limits.header_bytes));
  }
  if (traffic.sent <= kGreetingBytes) {
    most = std::min(most, kFirstWindow + allowed(kIncompleteBytes));
  }
  return traffic.unaccounted > most ? std::optional(ShutDownReason::kTraffic)
                                    : std::nullopt;
}

ConnectionOutcome Classify(std::optional<ShutDownReason> shut_down,
                           const SocketReading& socket, const ConnectionUse& use,
                           std::chrono::nanoseconds age, const TrafficLimits& limits) {
  if (shut_down == ShutDownReason::kIdle || shut_down == ShutDownReason::kEnd) {
    return ConnectionOutcome::kUseful;
  }
  if ((shut_down && IsAbuse(*shut_down)) ||
      UnaccountedBytes(socket, use, age, limits) > kFreeBytes) {
    return ConnectionOutcome::kAbusive;
  }
  const int64_t finished = use.calls_begun - use.calls_open - use.calls_cancelled;
  return finished > 0 ? ConnectionOutcome::kUseful : ConnectionOutcome::kUseless;
}

}  // namespace mnemon
