// SPDX-License-Identifier: MIT
// The listener: accepts connections within limits and hands each one on.
//
// A connection over a limit replaces an idle one (ConnectionTable::LongestIdle) or,
// when there is none, is closed at once. One that comes too soon after others of its
// address, above all abusive ones, waits (AddressPace). When descriptors run out,
// connections are refused by means of a descriptor in reserve, so that their peers need
// not time out; others are accepted again as soon as there are descriptors. An accepted
// socket is non-blocking, close-on-exec, sends without delay, and ends when the peer
// has not acknowledged for kUserTimeout.
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
#include "server/transport/traffic_check.h"

namespace mnemon {

// Safe for concurrent use, except for the destructor.
class Listener {
 public:
  static constexpr std::chrono::milliseconds kUserTimeout{30000};
  // A connection that has been idle for so long may lose its place to a new one.
  static constexpr std::chrono::milliseconds kIdle{1000};

  // Takes the descriptor of a connection that is in the table. Called on the listener's
  // thread.
  using OnAccept = std::function<void(Descriptor)>;

  struct Options {
    TrafficLimits traffic;
    double accepts_per_second = 2000;
    int64_t calls_per_connection = 2048;  // Connection's `most_calls`
  };

  // Listens: connections wait until Start. `table` outlives it. ListenFailed, naming
  // the option "listen"; RESOURCE_EXHAUSTED when there is no descriptor.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(const ListenAddress& address,
                                                        ConnectionTable& table,
                                                        const Options& options);
  // Ends the thread. Connections stay open.
  ~Listener();

  int port() const { return address_.port; }
  // Where this process itself can connect to it.
  const sockaddr_storage& own_address() const { return own_address_; }
  // Once. RESOURCE_EXHAUSTED when there is no thread.
  absl::Status Start(OnAccept on_accept);
  // After it OnAccept neither runs nor is called; ends of connections are still
  // noticed.
  void StopAccepting();
  // Closes and opens the listening sockets soon, in case they accept no more.
  // Connections that wait in them are refused.
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
  void HandOn(AddressPace::Waiting taken);
  // False: there is no room for it, and none can be made.
  bool MakeRoom(const Connection& connection);
  // The longest idle connection of `host`, or of all when that is empty; null: none was
  // idle when this was last checked.
  std::shared_ptr<Connection> TakeIdle(const std::string& host);
  void RefuseWaiting(int listening);
  void Forget(int handle);

  const ListenAddress address_;
  ConnectionTable& table_;
  const Options options_;
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
    std::shared_ptr<const UseCounts> counts;
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

// Connections, of two descriptors each, for which a process with `descriptors`, of
// which `open` are in use, has room beside its other uses.
int64_t ConnectionsFor(int64_t descriptors, int64_t open);
int64_t DescriptorLimit();  // of this process
int64_t OpenDescriptors();

}  // namespace mnemon
