// SPDX-License-Identifier: MIT
// The verdict on one connection's traffic: whether what its peer sends is in proportion
// to the calls that begin on it. A pure function.
//
// HTTP/2 lets a peer cost a server memory and time by frames that belong to no call:
// headers without end, empty frames, pings, streams that are reset as soon as they are
// opened, messages that never end. gRPC reads them all, and our code sees calls and
// whole messages only. But the system counts the bytes that came, and what is left when
// those of calls and messages are taken away has come for nothing so far.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "server/transport/connection.h"

namespace mnemon {

struct TrafficLimits {
  int64_t message_bytes = 4 << 20;  // of one message, at most
  int64_t header_bytes = 16 << 10;  // of the headers of one call, at most
  int64_t streams = 2048;           // open at once
  // Of one connection, that belong to no call or whole message.
  int64_t connection_bytes = int64_t{128} << 20;
  // For what a client sends first.
  std::chrono::milliseconds greeting{10000};
};

// Streams of a connection, as gRPC counts them.
struct StreamCounts {
  int64_t started = 0;
  int64_t ended = 0;
};

// Bytes from the peer that no call, no whole message, and no answer of the peer's own
// transport to what it was sent account for.
int64_t UnaccountedBytes(const SocketReading& socket, const ConnectionUse& use,
                         std::chrono::nanoseconds age, const TrafficLimits& limits);

// Of them, those that came since anything was sent to the peer. Only window updates let
// a peer send more bytes of messages; while none is sent, it can send only headers and
// other frames.
class UnansweredBytes {
 public:
  // With each reading of the socket; the result of UnaccountedBytes.
  int64_t Update(const SocketReading& socket, int64_t unaccounted);

 private:
  int64_t sent_ = -1;
  int64_t unaccounted_ = 0;  // when that many had been sent for the first time
};

// Of them, those that gRPC may hold for open streams; `streams` as below.
int64_t InFlightBytes(int64_t unaccounted, const std::optional<StreamCounts>& streams,
                      const TrafficLimits& limits);

// Whether its client has not even sent what comes first, and had time to: `age`, of
// which only that counts in which the server ran.
bool IsSilent(const SocketReading& socket, std::chrono::nanoseconds age,
              const TrafficLimits& limits);

// What is known of one connection.
struct Traffic {
  int64_t unaccounted = 0;  // UnaccountedBytes
  int64_t unanswered = 0;   // UnansweredBytes
  int64_t sent = 0;         // bytes to the peer
  ConnectionUse use;
  // Absent when gRPC does not know the connection (yet).
  std::optional<StreamCounts> streams;
  std::chrono::nanoseconds age{0};
  double allowance = 1;  // of the connection
};

// Why the connection has to be shut down; absent: it may go on.
std::optional<ShutDownReason> CheckTraffic(const Traffic& traffic,
                                           const TrafficLimits& limits);

// Of a connection that has ended, and whose calls have ended. kAbusive: it was shut
// down for abuse, or more bytes came than its calls account for. kUseless: every call
// on it, if there was any, was cancelled.
enum class ConnectionOutcome { kUseful, kUseless, kAbusive };
ConnectionOutcome Classify(std::optional<ShutDownReason> shut_down,
                           const SocketReading& socket, const ConnectionUse& use,
                           std::chrono::nanoseconds age, const TrafficLimits& limits);

}  // namespace mnemon
