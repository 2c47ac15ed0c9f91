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

// Of them, those that gRPC may hold for open streams; `streams` as below.
int64_t InFlightBytes(int64_t unaccounted, const std::optional<StreamCounts>& streams,
                      const TrafficLimits& limits);

// Why the connection has to be shut down; absent: it may go on. `streams` is absent
// when gRPC does not know the connection (yet).
std::optional<ShutDownReason> CheckTraffic(int64_t unaccounted,
                                           const ConnectionUse& use,
                                           const std::optional<StreamCounts>& streams,
                                           std::chrono::nanoseconds age,
                                           const TrafficLimits& limits);

}  // namespace mnemon
