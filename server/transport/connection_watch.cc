// SPDX-License-Identifier: MIT
#include "server/transport/connection_watch.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/strings.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// Between checks of suspects, of these and busy connections, and of all.
constexpr milliseconds kSuspectPeriod{5};
constexpr milliseconds kBusyPeriod{25};
constexpr milliseconds kFullPeriod{250};
// A connection is busy that has received more since the last check, or is new.
constexpr int64_t kBusyBytes = 16 << 10;
constexpr milliseconds kNew{500};
constexpr milliseconds kTrimPeriod{2000};

bool IsSuspect(const Connection& connection) { return connection.allowance() <= 0.5; }

}  // namespace

ConnectionWatch::ConnectionWatch(ConnectionTable& table, const Options& options,
                                 ReadStreams read_streams, const Clock& clock)
    : table_(table),
      options_(options),
      read_streams_(std::move(read_streams)),
      attended_(clock, kFullPeriod) {}

absl::Status ConnectionWatch::Start() {
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        StrCat("no thread to watch connections: ", error.what()));
  }
  return absl::OkStatus();
}

void ConnectionWatch::Run(const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any stopped;
  auto busy_due = SteadyClock::now(), all_due = busy_due;
  for (;;) {
    const milliseconds period = suspects_ ? kSuspectPeriod : kBusyPeriod;
    stopped.wait_for(lock, stop, period, [] { return false; });
    if (stop.stop_requested()) return;
    const auto now = SteadyClock::now();
    Scope scope = Scope::kSuspects;
    if (now >= all_due) {
      scope = Scope::kAll;
      all_due = now + kFullPeriod;
      busy_due = now + kBusyPeriod;
    } else if (now >= busy_due) {
      scope = Scope::kBusy;
      busy_due = now + kBusyPeriod;
    }
    try {
      Check(scope);
    } catch (const std::exception& error) {
      LogEvent(LogLevel::kError, "connection_watch", {{"exception", error.what()}});
    }
  }
}

void ConnectionWatch::Check(Scope scope) {
  const auto now = SteadyClock::now();
  attended_.Attend();
  if (now.time_since_epoch().count() >= end_) {
    for (const auto& connection : table_.All()) {
      connection->ShutDown(ShutDownReason::kEnd);
    }
  }
  for (auto& connection : table_.TakeNew()) Add(std::move(connection));
  if (scope == Scope::kAll) Refresh();
  // Nobody else has those that ended: this frees their descriptors.
  std::erase_if(watched_, [](const auto& entry) {
    return entry.second.connection.use_count() == 1;
  });
  suspects_ = false;
  for (auto& [key, watched] : watched_) {
    const bool suspect = watched.busy && IsSuspect(*watched.connection);
    if (scope == Scope::kAll || (scope == Scope::kBusy && watched.busy) || suspect) {
      CheckOne(watched, now);
    }
    suspects_ = suspects_ || (suspect && watched.busy);
  }
  if (scope == Scope::kSuspects) return;
  BoundTogether();
  if (now - trimmed_ < kTrimPeriod) return;
  trimmed_ = now;
  heap_.TrimIfWorth();
}

void ConnectionWatch::Add(std::shared_ptr<Connection> connection) {
  const Connection* const key = connection.get();
  watched_.try_emplace(
      key, Watched{.connection = std::move(connection), .seen = attended_.Now()});
}

// What is not in the table is watched no more.
void ConnectionWatch::Refresh() {
  auto before = std::exchange(watched_, {});
  for (auto& connection : table_.All()) {
    if (auto known = before.extract(connection.get())) {
      watched_.insert(std::move(known));
    } else {
      Add(std::move(connection));
    }
  }
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
  watched.connection->NoteReceived(socket.received_bytes, now);
  watched.busy = more > kBusyBytes || now - connection.accepted() < kNew;
  const auto age = now - connection.accepted();
  if (IsSilent(socket, attended_.Now() - watched.seen, options_.limits)) {
    watched.connection->ShutDown(ShutDownReason::kSilent);
    return;
  }
  // What was in flight may have become whole messages without further bytes.
  if (more == 0 && watched.in_flight == 0) return;
  const int64_t unaccounted = UnaccountedBytes(socket, use, age, options_.limits);
  const std::optional<StreamCounts> streams = read_streams_(connection.peer());
  if (streams) {
    const int64_t early = std::max<int64_t>(0, streams->ended - use.calls_begun);
    table_.AddEarlyResets(std::max<int64_t>(0, early - watched.early_resets));
    watched.early_resets = std::max(watched.early_resets, early);
  }
  watched.in_flight = InFlightBytes(unaccounted, streams, options_.limits);
  const auto reason =
      CheckTraffic({.unaccounted = unaccounted,
                    .unanswered = watched.unanswered.Update(socket, unaccounted),
                    .sent = socket.sent_bytes,
                    .use = use,
                    .streams = streams,
                    .age = age,
                    .allowance = connection.allowance()},
                   options_.limits);
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
