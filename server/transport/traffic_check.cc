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
// Messages that were refused, as too large or malformed, count as well: so many, each
// of a stream that has ended. Headers without end are kept to less, since gRPC reads
// them in a time that grows with their square.
constexpr int64_t kRefusedMessages = 4;
constexpr int64_t kIncompleteBytes = 256 << 10;
// Streams that may end without a call, and calls that may be cancelled, by one peer.
constexpr int64_t kFreeResets = 1000;
constexpr int64_t kFreeResetsPerSecond = 100;
constexpr int64_t kResetsPerCall = 10;  // that was not cancelled

int64_t Seconds(std::chrono::nanoseconds age) {
  return std::chrono::duration_cast<std::chrono::seconds>(age).count();
}

}  // namespace

int64_t UnaccountedBytes(const SocketReading& socket, const ConnectionUse& use,
                         std::chrono::nanoseconds age, const TrafficLimits& limits) {
  const int64_t accounted =
      kBytesPerMessageByte * use.message_bytes + use.calls_begun * limits.header_bytes +
      (use.messages_received + use.messages_sent) * kBytesPerMessage +
      socket.acked_bytes / kSentBytesPerByte + kFreeBytes +
      kFreeBytesPerSecond * Seconds(age);
  return std::max<int64_t>(0, socket.received_bytes - accounted);
}

int64_t InFlightBytes(int64_t unaccounted, const std::optional<StreamCounts>& streams,
                      const TrafficLimits& limits) {
  if (!streams) return unaccounted;
  const int64_t open = std::max<int64_t>(0, streams->started - streams->ended);
  return std::min(unaccounted, open * (limits.message_bytes + limits.header_bytes));
}

std::optional<ShutDownReason> CheckTraffic(int64_t unaccounted,
                                           const ConnectionUse& use,
                                           const std::optional<StreamCounts>& streams,
                                           std::chrono::nanoseconds age,
                                           const TrafficLimits& limits) {
  const int64_t never_begun =
      streams ? std::max<int64_t>(0, streams->ended - use.calls_begun) : 0;
  const int64_t finished = use.calls_begun - use.calls_open - use.calls_cancelled;
  const int64_t free_resets = kFreeResets + kFreeResetsPerSecond * Seconds(age) +
                              kResetsPerCall * std::max<int64_t>(0, finished);
  if (never_begun + use.calls_cancelled > free_resets) return ShutDownReason::kResets;
  int64_t most = limits.connection_bytes;
  if (streams) {
    const int64_t open = std::max<int64_t>(0, streams->started - streams->ended);
    if (open > limits.streams) return ShutDownReason::kCalls;
    most = std::min(
        most, kIncompleteBytes +
                  std::min(streams->ended, kRefusedMessages) * limits.message_bytes +
                  open * (limits.message_bytes + limits.header_bytes));
  }
  return unaccounted > most ? std::optional(ShutDownReason::kTraffic) : std::nullopt;
}

}  // namespace mnemon
