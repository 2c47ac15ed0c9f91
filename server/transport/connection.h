// SPDX-License-Identifier: MIT
// One accepted TCP connection: what its calls have done, and a handle to read it and to
// shut it down. The connection itself belongs to gRPC.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/descriptor.h"

namespace mnemon {

// Why a connection was shut down.
enum class ShutDownReason {
  kCalls,    // more calls at once than the peer may open
  kResets,   // streams that it resets, out of proportion to those that it lets end
  kTraffic,  // bytes that belong to no call
  kMemory,   // the most bytes in flight, when all together were too many
  kSilent,   // no greeting came in time
  kIdle,     // idle the longest, when a new connection needed its place
  kEnd,      // still open when the server ends
};
inline constexpr int kShutDownReasons = 7;
// Whether the peer is to blame.
inline bool IsAbuse(ShutDownReason reason) { return reason < ShutDownReason::kSilent; }
// "calls", "resets", "traffic", "memory", "silent", "idle", "end".
const char* Name(ShutDownReason reason);

// What the calls of a connection have done since it was accepted.
template <class Number>
struct UseFields {
  Number calls_begun{0};
  Number calls_open{0};       // now
  Number calls_cancelled{0};  // by the peer, before they had a status
  Number messages_received{0};
  Number message_bytes{0};  // received, in whole messages
  Number held_bytes{0};     // of these, those of calls that are open now
  Number messages_sent{0};
};
using ConnectionUse = UseFields<int64_t>;
// Safe for concurrent use.
struct UseCounts : UseFields<std::atomic<int64_t>> {
  ConnectionUse Read() const;
};

// What the system says about a socket.
struct SocketReading {
  int64_t received_bytes = 0;  // from the peer, since it was accepted
  int64_t acked_bytes = 0;     // sent, and acknowledged by the peer
  int64_t sent_bytes = 0;      // retransmissions included
  bool closed = false;         // at both ends
};

// Any TCP socket; zeros when the system says nothing.
SocketReading ReadSocket(int fd);

// The preface of HTTP/2 and empty SETTINGS, which a client sends first.
inline constexpr int64_t kClientGreetingBytes = 33;

// Whether the bytes of a request arrive fast enough for its connection to keep its
// place before silent ones.
class ArrivalPace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // At least so many bytes within each kPeriod.
  static constexpr int64_t kBytes = 64;
  static constexpr std::chrono::milliseconds kPeriod{1000};

  // `total` bytes have come by `now`. One thread.
  void Note(int64_t total, Time now) {
    if (total - noted_ < kBytes) return;
    noted_ = total;
    arrived_ = now.time_since_epoch().count();
  }
  // Safe for concurrent use. As of the last Note, which may be late by `slack`.
  bool Kept(Time now, std::chrono::milliseconds slack = {}) const {
    const Time::rep arrived = arrived_;
    return arrived != kNever && now - Time(Time::duration(arrived)) < kPeriod + slack;
  }

 private:
  static constexpr Time::rep kNever = INT64_MIN;
  int64_t noted_ = 0;  // owned by the thread that notes
  std::atomic<Time::rep> arrived_ = kNever;
};

// Safe for concurrent use, except for NoteReceived.
class Connection {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Takes `handle`, a duplicate of the connection's descriptor. `peer` is as PeerText
  // writes it. A connection with more than `most_calls` open calls is shut down.
  // `allowance` in (0, 1] is the share of this and other limits that it may use.
  Connection(std::string peer, Descriptor handle, int64_t most_calls, Time now,
             double allowance = 1);

  const std::string& peer() const { return peer_; }
  const std::string& host() const { return host_; }  // the address without the port
  int handle() const { return handle_.get(); }
  Time accepted() const { return accepted_; }
  double allowance() const { return allowance_; }

  void OnCallBegan();
  // `held`: bytes of the messages that the call received.
  void OnCallEnded(bool cancelled, int64_t held);
  void OnMessageReceived(int64_t bytes);
  void OnMessageSent() { ++counts_->messages_sent; }
  ConnectionUse use() const { return counts_->Read(); }
  // Lives on after the connection.
  std::shared_ptr<const UseCounts> counts() const { return counts_; }
  // No call is open, since the last one ended, or since the connection was accepted.
  bool idle() const { return counts_->calls_open == 0; }
  Time idle_since() const { return Time(Time::duration(idle_since_.load())); }

  // Whether the bytes of a message may be on their way whose call is not open yet:
  // they keep ArrivalPace, and the connection has been idle for less than
  // kLongestArrival.
  static constexpr std::chrono::milliseconds kLongestArrival{60000};
  bool arriving(Time now) const;
  // The client has sent kClientGreetingBytes.
  bool greeted() const { return greeted_; }
  // `bytes` have come since it was accepted. One thread.
  void NoteReceived(int64_t bytes, Time now);

  SocketReading Read() const { return ReadSocket(handle_.get()); }
  // What the peer has sent and nobody has read yet.
  int64_t unread_bytes() const;
  // Resets the connection, drops what was received and not read, and logs why; its
  // calls end as if the peer had gone. Only the first reason counts: false for others.
  bool ShutDown(ShutDownReason reason);
  std::optional<ShutDownReason> shut_down() const;

 private:
  const std::string peer_;
  const std::string host_;
  const Descriptor handle_;
  const double allowance_;
  const int64_t most_calls_;
  const Time accepted_;
  const std::shared_ptr<UseCounts> counts_ = std::make_shared<UseCounts>();
  std::atomic<Time::rep> idle_since_;
  ArrivalPace pace_;
  std::atomic<bool> greeted_ = false;
  std::atomic<int> shut_down_{-1};  // a ShutDownReason; -1: it was not
};

}  // namespace mnemon
