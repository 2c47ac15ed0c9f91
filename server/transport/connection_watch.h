// SPDX-License-Identifier: MIT
// A thread that compares the traffic of each connection with its calls, bounds what all
// hold together, and returns memory that a flood has left to the system.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

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
    // Above one of these limits, the connection that holds most is shut down.
    int64_t most_in_flight = int64_t{512} << 20;  // bytes received for open calls
    int64_t most_calls = 16384;                   // open at once
  };
  // The streams of a peer; nullopt when gRPC does not know it. Called on the thread.
  using ReadStreams = std::function<std::optional<StreamCounts>(const std::string&)>;

  // `table` and `clock`, which times the greeting of clients, outlive it.
  ConnectionWatch(ConnectionTable& table, const Options& options,
                  ReadStreams read_streams, const Clock& clock = Clock::Real());

  // RESOURCE_EXHAUSTED when there is no thread.
  absl::Status Start();
  // Shuts down every connection that is open at that time or opens later, so that no
  // peer can delay the end of the server. Safe for concurrent use.
  void ShutDownAllAt(Connection::Time time) { end_ = time.time_since_epoch().count(); }
  // One check; for tests, without the thread. kSuspects: connections whose address had
  // abusive ones; kBusy: also those that are new or have received much since the last
  // check.
  enum class Scope { kSuspects, kBusy, kAll };
  void Check(Scope scope);

 private:
  struct Watched {
    std::shared_ptr<Connection> connection;
    Connection::Time seen;  // for the first time, by attended_
    int64_t received = 0;
    int64_t in_flight = 0;  // the most bytes that incomplete messages may have
    UnansweredBytes unanswered;
    int64_t early_resets = 0;
    bool busy = true;  // it is new, or has received much since the last check
  };

  void Run(const std::stop_token& stop);
  void Add(std::shared_ptr<Connection> connection);
  void Refresh();
  void CheckOne(Watched& watched, Connection::Time now);
  void BoundTogether();

  ConnectionTable& table_;
  const Options options_;
  const ReadStreams read_streams_;
  AttendedClock attended_;

  std::atomic<Connection::Time::rep> end_ =
      Connection::Time::max().time_since_epoch().count();

  // Owned by the thread.
  std::unordered_map<const Connection*, Watched> watched_;
  bool suspects_ = false;  // one is watched
  HeapTrim heap_;
  Connection::Time trimmed_;

  std::jthread thread_;  // last: it uses the others
};

}  // namespace mnemon
