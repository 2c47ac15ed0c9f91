// SPDX-License-Identifier: MIT
#include "server/transport/connection_watch.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/strings.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr milliseconds kPeriod{25};
constexpr int kPeriodsPerFullCheck = 10;
// Received within a period, from which on a connection is checked in each of them.
constexpr int64_t kBusyBytes = 16 << 10;
// A connection is new, and checked in each period, for so long.
constexpr milliseconds kNew{1000};
constexpr milliseconds kTrimPeriod{1000};

}  // namespace

ConnectionWatch::ConnectionWatch(ConnectionTable& table, const Options& options,
                                 ReadStreams read_streams)
    : table_(table), options_(options), read_streams_(std::move(read_streams)) {}

ConnectionWatch::~ConnectionWatch() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_one();
  if (thread_.joinable()) thread_.join();
}

absl::Status ConnectionWatch::Start() {
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        StrCat("no thread to watch connections: ", error.what()));
  }
  return absl::OkStatus();
}

void ConnectionWatch::Run() {
  for (int64_t round = 0;; ++round) {
    {
      std::unique_lock lock(mutex_);
      if (stop_.wait_for(lock, kPeriod, [this] { return stopping_; })) return;
    }
    try {
      Check(round % kPeriodsPerFullCheck == 0);
    } catch (const std::exception& error) {
      LogEvent(LogLevel::kError, "connection_watch", {{"exception", error.what()}});
    }
  }
}

void ConnectionWatch::Check(bool all) {
  const auto now = SteadyClock::now();
  if (now.time_since_epoch().count() >= end_) {
    for (const auto& connection : table_.All()) {
      connection->ShutDown(ShutDownReason::kEnd);
    }
  }
  const ConnectionCounts counts = table_.counts();
  if (std::exchange(accepted_, counts.accepted) != counts.accepted || all) Refresh();
  for (auto& [key, watched] : watched_) {
    if (all || watched.busy) CheckOne(watched, now);
  }
  BoundTogether();
  if (now - trimmed_ < kTrimPeriod) return;
  trimmed_ = now;
  heap_.TrimIfWorth();
}

void ConnectionWatch::Refresh() {
  std::unordered_map<const Connection*, Watched> open;
  for (auto& connection : table_.All()) {
    const auto found = watched_.find(connection.get());
    if (found != watched_.end()) {
      open.emplace(connection.get(), found->second);
    } else {
      open.emplace(connection.get(), Watched{.connection = connection, .busy = true});
    }
  }
  watched_ = std::move(open);
}

void ConnectionWatch::CheckOne(Watched& watched, Connection::Time now) {
  const Connection& connection = *watched.connection;
  if (connection.shut_down()) {
    watched.busy = false;
    watched.in_flight = 0;
    return;
  }
  // What calls did is read last: it then accounts for all that was received.
  const SocketReading socket = connection.Read();
  const ConnectionUse use = connection.use();
  const int64_t more = socket.received_bytes - watched.received;
  watched.received = socket.received_bytes;
  watched.busy = more > kBusyBytes || now - connection.accepted() < kNew;
  // What was in flight may have become whole messages without further bytes.
  if (more == 0 && watched.in_flight == 0) return;
  const auto age = now - connection.accepted();
  const int64_t unaccounted = UnaccountedBytes(socket, use, age, options_.limits);
  const std::optional<StreamCounts> streams = read_streams_(connection.peer());
  if (streams) {
    const int64_t early = std::max<int64_t>(0, streams->ended - use.calls_begun);
    table_.AddEarlyResets(std::max<int64_t>(0, early - watched.early_resets));
    watched.early_resets = std::max(watched.early_resets, early);
  }
  watched.in_flight = InFlightBytes(unaccounted, streams, options_.limits);
  const auto reason = CheckTraffic(unaccounted, use, streams, age, options_.limits);
  if (reason) watched.connection->ShutDown(*reason);
}

void ConnectionWatch::BoundTogether() {
  int64_t bytes = 0;
  int64_t calls = 0;
  Watched* most_bytes = nullptr;
  Watched* most_calls = nullptr;
  const auto held = [](const Watched& one) {
    return one.in_flight + one.connection->use().held_bytes;
  };
  const auto open = [](const Watched& one) { return one.connection->use().calls_open; };
  for (auto& [key, watched] : watched_) {
    bytes += held(watched);
    calls += open(watched);
    if (watched.connection->shut_down()) continue;
    if (!most_bytes || held(watched) > held(*most_bytes)) most_bytes = &watched;
    if (!most_calls || open(watched) > open(*most_calls)) most_calls = &watched;
  }
  table_.SetInFlight(bytes, options_.most_in_flight);
  if (bytes > options_.most_in_flight && most_bytes) {
    most_bytes->connection->ShutDown(ShutDownReason::kMemory);
  } else if (calls > options_.most_calls && most_calls) {
    most_calls->connection->ShutDown(ShutDownReason::kCalls);
  }
}

}  // namespace mnemon
