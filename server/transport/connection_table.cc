// SPDX-License-Identifier: MIT
#include "server/transport/connection_table.h"

#include <algorithm>
#include <utility>

namespace mnemon {
namespace {

// A client that is refused tries again about so soon.
constexpr std::chrono::milliseconds kFullFor{2000};
// Added between two calls of TakeNew; All has the others.
constexpr size_t kMostNew = 4096;

}  // namespace

const char* Name(RefusalReason reason) {
  static constexpr const char* kNames[kRefusalReasons] = {"limit", "host_limit",
                                                          "descriptors", "pace"};
  return kNames[static_cast<size_t>(reason)];
}

ConnectionTable::ConnectionTable(int64_t limit, int64_t host_limit)
    : limit_(std::max<int64_t>(1, limit)),
      host_limit_(std::max<int64_t>(1, host_limit)) {
  counts_.limit = limit_;
}

std::optional<RefusalReason> ConnectionTable::WhyFull(
    const Connection& connection) const {
  std::lock_guard lock(mutex_);
  if (expected_.contains(connection.peer())) return std::nullopt;
  const auto host = hosts_.find(connection.host());
  if (host != hosts_.end() && host->second >= host_limit_) {
    return RefusalReason::kHostLimit;
  }
  if (static_cast<int64_t>(open_.size()) < limit_) return std::nullopt;
  return RefusalReason::kLimit;
}

void ConnectionTable::Add(std::shared_ptr<Connection> connection) {
  std::lock_guard lock(mutex_);
  if (new_.size() < kMostNew) new_.push_back(connection);
  int64_t& of_host = hosts_[connection->host()];
  const std::string_view peer = connection->peer();
  std::shared_ptr<Connection>& place = open_[peer];
  // A peer may have the port again before the end of its last connection is noticed.
  // The key is a view of the peer text of the value.
  if (place != nullptr) {
    open_.erase(peer);
    open_.emplace(peer, std::move(connection));
  } else {
    place = std::move(connection);
    ++of_host;
  }
  ++counts_.accepted;
}

void ConnectionTable::Remove(const Connection& connection) {
  std::shared_ptr<Connection> removed;  // destroyed after the lock
  std::lock_guard lock(mutex_);
  if (const auto reason = connection.shut_down()) {
    ++counts_.shut_down[static_cast<size_t>(*reason)];
  }
  const auto found = open_.find(connection.peer());
  if (found == open_.end() || found->second.get() != &connection) return;
  const auto host = hosts_.find(connection.host());
  if (--host->second == 0) hosts_.erase(host);
  removed = std::move(found->second);
  open_.erase(found);
}

std::shared_ptr<Connection> ConnectionTable::Find(std::string_view peer) const {
  std::lock_guard lock(mutex_);
  const auto found = open_.find(peer);
  return found == open_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Connection>> ConnectionTable::All() const {
  std::vector<std::shared_ptr<Connection>> all;
  std::lock_guard lock(mutex_);
  all.reserve(open_.size());
  for (const auto& [peer, connection] : open_) all.push_back(connection);
  return all;
}

std::vector<std::shared_ptr<Connection>> ConnectionTable::TakeNew() {
  std::vector<std::weak_ptr<Connection>> taken;
  {
    std::lock_guard lock(mutex_);
    taken.swap(new_);
  }
  std::vector<std::shared_ptr<Connection>> open;
  for (const auto& one : taken) {
    if (auto connection = one.lock()) open.push_back(std::move(connection));
  }
  return open;
}

std::vector<std::shared_ptr<Connection>> ConnectionTable::LongestIdle(
    const std::string& host, Connection::Time limit, size_t most) const {
  const auto now = std::chrono::steady_clock::now();
  // Ranks are kept, since they may change meanwhile.
  using Rank = std::pair<bool, Connection::Time>;
  std::vector<std::pair<Rank, std::shared_ptr<Connection>>> idle;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [peer, connection] : open_) {
      if (!host.empty() && connection->host() != host) continue;
      if (!connection->idle() || connection->shut_down()) continue;
      const Connection::Time since = connection->idle_since();
      if (since > limit || connection->arriving(now)) continue;
      if (expected_.contains(peer)) continue;
      idle.emplace_back(Rank(connection->greeted(), since), connection);
    }
  }
  const size_t count = std::min(most, idle.size());
  std::partial_sort(idle.begin(), idle.begin() + static_cast<ptrdiff_t>(count),
                    idle.end());
  std::vector<std::shared_ptr<Connection>> longest;
  for (size_t i = 0; i < count; ++i) longest.push_back(std::move(idle[i].second));
  return longest;
}

void ConnectionTable::Expect(const std::string& peer) {
  std::lock_guard lock(mutex_);
  expected_.insert(peer);
}

void ConnectionTable::StopExpecting(const std::string& peer) {
  std::lock_guard lock(mutex_);
  expected_.erase(peer);
}

bool ConnectionTable::Expected(const std::string& peer) const {
  std::lock_guard lock(mutex_);
  return expected_.contains(peer);
}

void ConnectionTable::CountRefused(RefusalReason reason) {
  std::lock_guard lock(mutex_);
  ++counts_.refused[static_cast<size_t>(reason)];
  if (reason == RefusalReason::kLimit) full_at_ = std::chrono::steady_clock::now();
}

void ConnectionTable::SetPaused(bool paused) {
  std::lock_guard lock(mutex_);
  counts_.paused = paused;
}

void ConnectionTable::SetInFlight(int64_t bytes, int64_t limit) {
  std::lock_guard lock(mutex_);
  counts_.in_flight_bytes = bytes;
  counts_.in_flight_limit = limit;
}

void ConnectionTable::AddEarlyResets(int64_t count) {
  std::lock_guard lock(mutex_);
  counts_.early_resets += count;
}

ConnectionCounts ConnectionTable::counts() const {
  std::lock_guard lock(mutex_);
  ConnectionCounts now = counts_;
  now.open = static_cast<int64_t>(open_.size());
  now.full = full_at_ && std::chrono::steady_clock::now() - *full_at_ < kFullFor;
  return now;
}

}  // namespace mnemon
