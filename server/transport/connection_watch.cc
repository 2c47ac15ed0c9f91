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

// Between checks of suspects, of busy connections, and of all. Every check of a kind
// includes those before it.
constexpr milliseconds kSuspectPeriod{5};
constexpr milliseconds kBusyPeriod{25};
constexpr milliseconds kFullPeriod{250};
// Received between two checks, from which on a connection is busy.
constexpr int64_t kBusyBytes = 16 << 10;
// A connection is new, and counts as busy, for so long.
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
  auto busy_due = SteadyClock::now(), all_due = busy_due;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const milliseconds period = suspects_ ? kSuspectPeriod : kBusyPeriod;
      if (stop_.wait_for(lock, period, [this] { return stopping_; })) return;
    }
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
  AddNew();
  if (scope == Scope::kAll) Refresh();
  // Nobody else has those that ended, whose descriptors are free then.
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

void ConnectionWatch::AddNew() {
  for (auto& connection : table_.TakeNew()) {
    const Connection* const key = connection.get();
    watched_.try_emplace(key, Watched{.connection = std::move(connection),
                                      .seen = attended_.Now(),
                                      .busy = true});
  }
}

void ConnectionWatch::Refresh() {
  std::unordered_map<const Connection*, Watched> open;
  for (auto& connection : table_.All()) {
    const Connection* const key = connection.get();
    const auto found = watched_.find(key);
    open.emplace(key, found != watched_.end()
                          ? std::move(found->second)
                          : Watched{.connection = std::move(connection),
                                    .seen = attended_.Now(),
                                    .busy = true});
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
