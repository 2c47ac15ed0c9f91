// SPDX-License-Identifier: MIT
// The watch over all connections: a thread that compares the traffic of each with its
// calls, bounds what all hold together, and gives memory that a flood has left back to
// the system.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "base/attended_clock.h"
#include "base/memory/heap_trim.h"
#include "server/transport/connection_table.h"
#include "server/transport/traffic_check.h"

namespace mnemon {

class ConnectionWatch {
 public:
  struct Options {
    TrafficLimits limits;
    // Received bytes of all connections, of calls that have not ended: when they are
    // more, the connection that holds most of them is shut down.
    int64_t most_in_flight = int64_t{512} << 20;
    int64_t most_calls = 16384;  // open at once, likewise
  };
  // The streams of a peer; nullopt when gRPC does not know it. Called on the watch's
  // thread.
  using ReadStreams = std::function<std::optional<StreamCounts>(const std::string&)>;

  // `table` and `clock`, of the time that a client has to greet, outlive it.
  ConnectionWatch(ConnectionTable& table, const Options& options,
                  ReadStreams read_streams, const Clock& clock = Clock::Real());
  ~ConnectionWatch();
  ConnectionWatch(const ConnectionWatch&) = delete;
  ConnectionWatch& operator=(const ConnectionWatch&) = delete;

  // RESOURCE_EXHAUSTED when there is no thread.
  absl::Status Start();
  // Shuts down every connection that is open then or opens later, for an end of the
  // server that no peer can delay. Safe for concurrent use.
  void ShutDownAllAt(Connection::Time time) { end_ = time.time_since_epoch().count(); }
  // One check, for tests without the thread. kSuspects are connections whose address
  // had abusive ones, kBusy those and ones that are new or received much since the
  // check before.
  enum class Scope { kSuspects, kBusy, kAll };
  void Check(Scope scope);

 private:
  struct Watched {
    std::shared_ptr<Connection> connection;
    Connection::Time seen;  // for the first time, by attended_
    int64_t received = 0;
    int64_t in_flight = 0;  // bytes of messages that are not whole yet, at most
    UnansweredBytes unanswered;
    int64_t early_resets = 0;
    bool busy = false;  // it is new, or received much since the check before
  };

  void Run();
  void AddNew();
  void Refresh();
  void CheckOne(Watched& watched, Connection::Time now);
  void BoundTogether();

  ConnectionTable& table_;
  const Options options_;
  const ReadStreams read_streams_;
  AttendedClock attended_;

  std::atomic<Connection::Time::rep> end_ =
      Connection::Time::max().time_since_epoch().count();
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;  // guarded by mutex_

  // Owned by the thread.
  std::unordered_map<const Connection*, Watched> watched_;
  bool suspects_ = false;  // one is watched
  HeapTrim heap_;
  Connection::Time trimmed_;

  std::thread thread_;
};

}  // namespace mnemon
