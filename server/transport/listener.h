// SPDX-License-Identifier: MIT
// The listener: accepts connections within limits and hands each one on.
//
// A connection over a limit takes the place of one that is idle: of one that has said
// nothing yet, the oldest of them first, else of the one that has been idle longest;
// when none is, it is closed at once. One on which a message arrives is not idle. One
// that comes too soon after others of its address, above all abusive ones, waits
// (address_pace.h). When descriptors run out, connections that wait are refused by
// means of a descriptor in reserve, so that their peers need not time out, and it
// accepts again as soon as there are descriptors. An accepted socket is non-blocking,
// close-on-exec, sends without delay, and ends when the peer has not acknowledged for
// kUserTimeout.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/listen_address.h"
#include "base/token_bucket.h"
#include "server/transport/address_pace.h"
#include "server/transport/connection_table.h"
#include "server/transport/listening_sockets.h"
#include "server/transport/traffic_check.h"

namespace mnemon {

// Safe for concurrent use, but for the destructor.
class Listener {
 public:
  static constexpr std::chrono::milliseconds kUserTimeout{30000};
  // A connection without a call for so long may lose its place to a new one.
  static constexpr std::chrono::milliseconds kIdle{1000};

  // Takes a connection's descriptor; the connection is in the table. Called on the
  // listener's thread.
  using OnAccept = std::function<void(Descriptor)>;

  struct Options {
    TrafficLimits traffic;
    double accepts_per_second = 2000;
    int64_t calls_per_connection = 2048;  // open at once; with more it is shut down
  };

  // Listens at once, so that connections wait, and accepts from Start on. `table`
  // outlives it. ListenFailed, naming the option "listen"; RESOURCE_EXHAUSTED when
  // there is no descriptor for it.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(const ListenAddress& address,
                                                        ConnectionTable& table,
                                                        const Options& options);
  // Ends the thread. Connections that are open stay open.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const { return port_; }
  // Where this process itself can connect to it.
  const sockaddr_storage& own_address() const { return own_address_; }
  // Once. RESOURCE_EXHAUSTED when there is no thread.
  absl::Status Start(OnAccept on_accept);
  // No call of OnAccept runs or begins after it; ends of connections are still noticed.
  void StopAccepting();
  // Closes the listening sockets and opens them again, soon: a remedy for ones that
  // accept no more. What waits in them is refused.
  void Reopen();

 private:
  Listener(const ListenAddress& address, ConnectionTable& table, const Options& options,
           ListeningSockets listening);

  // The listener's thread.
  void Run();
  void Wake();
  void Watch(int fd, uint32_t events);
  void PollListening(bool on);
  void ReopenSockets();
  void AcceptSome(int listening);
  void Take(Descriptor accepted);
  void ClassifyEnded();
  void TakeDue();
  void HandOn(AddressPace::Waiting taken);
  // Whether it may stay: makes room for it where that is needed and possible.
  bool MakeRoom(const Connection& connection);
  // The one that has been idle longest, of `host`, or of all when that is empty; null:
  // none was when this was last checked.
  std::shared_ptr<Connection> TakeIdle(const std::string& host);
  void RefuseWaiting(int listening);
  void Forget(int handle);

  const ListenAddress address_;
  ConnectionTable& table_;
  const Options options_;
  const int port_;
  const sockaddr_storage own_address_;

  std::mutex mutex_;    // held during OnAccept
  OnAccept on_accept_;  // guarded by mutex_; empty: none is accepted
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> reopen_ = false;

  // Constant once the thread runs.
  Descriptor epoll_;
  Descriptor wake_;  // an eventfd

  // Owned by the listener's thread once it runs.
  ListeningSockets listening_;
  Descriptor reserve_;
  bool polling_ = false;  // the listening sockets
  // A connection that has ended, without its descriptor.
  struct Ended {
    std::string host;
    std::optional<ShutDownReason> shut_down;
    SocketReading socket;
    std::chrono::nanoseconds age;
    std::shared_ptr<const Connection::UseCounts> counts;
    Connection::Time classify_at;
  };
  std::deque<Ended> ended_;
  AddressPace pace_;
  TokenBucket bucket_;
  std::optional<Connection::Time> resume_;  // when to poll again
  // Idle connections as of the last check, the longest idle last.
  std::vector<std::shared_ptr<Connection>> idle_;
  std::string idle_host_;
  Connection::Time idle_checked_;
  std::unordered_map<int, std::shared_ptr<Connection>> open_;  // by handle

  std::thread thread_;
};

// Connections that a process with so many descriptors may hold, two for each one, when
// so many are open and some are left for other uses.
int64_t ConnectionsFor(int64_t descriptors, int64_t open);
// Descriptors that this process may have open, and those that it has.
int64_t DescriptorLimit();
int64_t OpenDescriptors();

}  // namespace mnemon
