// SPDX-License-Identifier: MIT
// One accepted TCP connection: what the calls on it did so far, and a handle by which
// it can be read and shut down. The connection itself belongs to gRPC.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/files/descriptor.h"
#include "server/transport/arrival_pace.h"

namespace mnemon {

// Why a connection was shut down.
enum class ShutDownReason {
  kCalls,    // more calls at once than the peer was allowed to open
  kResets,   // streams that it resets, out of proportion to those that it lets end
  kTraffic,  // bytes that belong to no call
  kMemory,   // the most bytes in flight, when all together were too many
  kSilent,   // no greeting came in time
  kIdle,     // idle the longest, when a new connection needed its place
  kEnd,      // still open when the server ends
};
inline constexpr int kShutDownReasons = 7;
// Whether the peer is to blame for it.
bool IsAbuse(ShutDownReason reason);
// "calls", "resets", "traffic", "memory", "silent", "idle", "end".
const char* Name(ShutDownReason reason);

// What the calls of a connection did. Counts since it was accepted, unless stated
// otherwise.
struct ConnectionUse {
  int64_t calls_begun = 0;
  int64_t calls_open = 0;       // now
  int64_t calls_cancelled = 0;  // by the peer, before they had a status
  int64_t messages_received = 0;
  int64_t message_bytes = 0;  // of those received, whole ones only
  int64_t held_bytes = 0;     // of them, of calls that are open now
  int64_t messages_sent = 0;
};

// What the system says about its socket.
struct SocketReading {
  int64_t received_bytes = 0;  // from the peer, since it was accepted
  int64_t acked_bytes = 0;     // sent, and acknowledged by the peer
  int64_t sent_bytes = 0;      // retransmissions included
  bool closed = false;         // at both ends
};

// Of any TCP socket; zeros when the system says nothing.
SocketReading ReadSocket(int fd);

// Of the preface of HTTP/2 and SETTINGS without any, which a client sends first.
inline constexpr int64_t kClientGreetingBytes = 33;

// Safe for concurrent use, but for NoteReceived.
class Connection {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // What its calls did; lives on after the connection and its handle.
  class UseCounts {
   public:
    ConnectionUse Read() const;

   private:
    friend class Connection;

    std::atomic<int64_t> calls_begun_{0};
    std::atomic<int64_t> calls_open_{0};
    std::atomic<int64_t> calls_cancelled_{0};
    std::atomic<int64_t> messages_received_{0};
    std::atomic<int64_t> message_bytes_{0};
    std::atomic<int64_t> held_bytes_{0};
    std::atomic<int64_t> messages_sent_{0};
  };

  // Takes `handle`, a duplicate of the connection's descriptor. `peer` as PeerText
  // writes it. A peer may have `most_calls` calls open: one with more is shut down.
  // `allowance` in (0, 1] is its share of that and of other limits.
  Connection(std::string peer, Descriptor handle, int64_t most_calls, Time now,
             double allowance = 1);

  const std::string& peer() const { return peer_; }
  // The address without the port.
  const std::string& host() const { return host_; }
  int handle() const { return handle_.get(); }
  Time accepted() const { return accepted_; }
  double allowance() const { return allowance_; }

  void OnCallBegan();
  // `held`: bytes of the messages that the call received.
  void OnCallEnded(bool cancelled, int64_t held);
  void OnMessageReceived(int64_t bytes);
  void OnMessageSent();
  ConnectionUse use() const { return counts_->Read(); }
  std::shared_ptr<const UseCounts> counts() const { return counts_; }
  // No call is open; then, when the last one ended, or when it was accepted.
  bool idle() const {
    return counts_->calls_open_.load(std::memory_order_relaxed) == 0;
  }
  Time idle_since() const { return Time(Time::duration(idle_since_.load())); }

  // A call may be on its way whose message is not whole, which is not open yet: bytes
  // come at the pace of ArrivalPace, and it has been idle for less than
  // kLongestArrival.
  static constexpr std::chrono::milliseconds kLongestArrival{60000};
  bool arriving(Time now) const;
  // Its client has sent what comes first.
  bool greeted() const { return greeted_.load(std::memory_order_relaxed); }
  // By one thread: `bytes` have come since it was accepted.
  void NoteReceived(int64_t bytes, Time now);

  SocketReading Read() const;
  // What the peer has sent and nobody has read yet.
  int64_t unread_bytes() const;
  // Resets the connection, drops what was received and not read, and logs why; its
  // calls end as if the peer had gone. Of several reasons the first counts: false for
  // the others.
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
