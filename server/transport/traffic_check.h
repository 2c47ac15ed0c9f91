// SPDX-License-Identifier: MIT
// Whether what a peer sends is in proportion to the calls of its connection. Pure
// functions.
//
// In HTTP/2 a peer can cost a server memory and time with frames that belong to no
// call: headers without end, empty frames, pings, streams that are reset as soon as
// they are opened, messages that never end. gRPC reads them all and reports only calls
// and whole messages. But the system counts the bytes that came: those which calls and
// messages do not account for have come for nothing so far.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "server/transport/connection.h"

namespace mnemon {

struct TrafficLimits {
  int64_t message_bytes = 4 << 20;  // of one message
  int64_t header_bytes = 16 << 10;  // of the headers of one call
  int64_t streams = 2048;           // open at once
  // Bytes of one connection without a call or a whole message.
  int64_t connection_bytes = int64_t{128} << 20;
  std::chrono::milliseconds greeting{10000};  // until kClientGreetingBytes have come
};

// The streams of a connection, as gRPC counts them.
struct StreamCounts {
  int64_t started = 0;
  int64_t ended = 0;

  int64_t open() const { return started > ended ? started - ended : 0; }
};

// Bytes from the peer that its calls, their whole messages, and its transport's answers
// to what it was sent do not account for.
int64_t UnaccountedBytes(const SocketReading& socket, const ConnectionUse& use,
                         std::chrono::nanoseconds age, const TrafficLimits& limits);

// The unaccounted bytes that came since anything was sent to the peer. They are headers
// and other frames: for bytes of messages a peer needs window updates.
class UnansweredBytes {
 public:
  // To be called with each reading and its UnaccountedBytes.
  int64_t Update(const SocketReading& socket, int64_t unaccounted);

 private:
  int64_t sent_ = -1;
  int64_t unaccounted_ = 0;  // when sent_ was first read
};

// The unaccounted bytes that gRPC may hold for open streams; `streams` as in Traffic.
int64_t InFlightBytes(int64_t unaccounted, const std::optional<StreamCounts>& streams,
                      const TrafficLimits& limits);

// Whether the client has sent no greeting for too long. `age` excludes time in which
// the server did not run.
bool IsSilent(const SocketReading& socket, std::chrono::nanoseconds age,
              const TrafficLimits& limits);

// What is known of one connection.
struct Traffic {
  int64_t unaccounted = 0;  // UnaccountedBytes
  int64_t unanswered = 0;   // UnansweredBytes
  int64_t sent = 0;         // bytes to the peer
  ConnectionUse use;
  std::optional<StreamCounts> streams;  // absent: gRPC does not know it (yet)
  std::chrono::nanoseconds age{0};
  double allowance = 1;  // of the connection
};

// Why the connection has to be shut down; absent: it may go on.
std::optional<ShutDownReason> CheckTraffic(const Traffic& traffic,
                                           const TrafficLimits& limits);

enum class ConnectionOutcome {
  kUseful,
  kUseless,  // it had no call, or every one was cancelled
  kAbusive,  // it was shut down for abuse, or too many bytes are unaccounted for
};
// REQUIRES: the connection and its calls have ended.
ConnectionOutcome Classify(std::optional<ShutDownReason> shut_down,
                           const SocketReading& socket, const ConnectionUse& use,
                           std::chrono::nanoseconds age, const TrafficLimits& limits);

}  // namespace mnemon
