// SPDX-License-Identifier: MIT
// The open connections of a server by peer, and counts of those that came and ended.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/transport/connection.h"

namespace mnemon {

// Why a connection was not accepted.
enum class RefusalReason {
  kLimit,        // as many were open as may be, and none was idle
  kHostLimit,    // the same for its address
  kDescriptors,  // the process had no descriptor left
  kPace,         // too many of its address waited for their turn
};
inline constexpr int kRefusalReasons = 4;
// "limit", "host_limit", "descriptors", "pace".
const char* Name(RefusalReason reason);

struct ConnectionCounts {
  int64_t open = 0;
  int64_t limit = 0;
  bool paused = false;          // none is accepted, for want of descriptors
  bool full = false;            // one was refused for kLimit in the last two seconds
  int64_t in_flight_bytes = 0;  // received, for calls that have not ended
  int64_t in_flight_limit = 0;
  // Since the start:
  int64_t early_resets = 0;  // streams that were reset before their call began
  int64_t accepted = 0;
  std::array<int64_t, kRefusalReasons> refused{};
  std::array<int64_t, kShutDownReasons> shut_down{};
};

// Safe for concurrent use.
class ConnectionTable {
 public:
  // The most that may be open, in all and of one address; at least 1.
  ConnectionTable(int64_t limit, int64_t host_limit);

  // kLimit or kHostLimit; nullopt: there is room for it, or it is expected.
  std::optional<RefusalReason> WhyFull(const Connection& connection) const;
  void Add(std::shared_ptr<Connection> connection);
  // It has ended.
  void Remove(const Connection& connection);
  // Null: none of this peer is open.
  std::shared_ptr<Connection> Find(std::string_view peer) const;
  std::vector<std::shared_ptr<Connection>> All() const;
  // Those that were added since the last call. One caller.
  std::vector<std::shared_ptr<Connection>> TakeNew();
  // At most `most` that have been idle since `limit`, and are not arriving or expected:
  // first those that have not greeted, then the others, the longest idle first. Of
  // `host`, or of all when that is empty. Takes O(connections).
  std::vector<std::shared_ptr<Connection>> LongestIdle(const std::string& host,
                                                       Connection::Time limit,
                                                       size_t most) const;

  // `peer`, as PeerText writes it, is of a connection that this process makes itself:
  // it has no limit.
  void Expect(const std::string& peer);
  void StopExpecting(const std::string& peer);
  bool Expected(const std::string& peer) const;

  void CountRefused(RefusalReason reason);
  void SetPaused(bool paused);
  void SetInFlight(int64_t bytes, int64_t limit);
  void AddEarlyResets(int64_t count);
  ConnectionCounts counts() const;

 private:
  const int64_t limit_;
  const int64_t host_limit_;
  mutable std::mutex mutex_;  // guards what follows
  std::unordered_map<std::string_view, std::shared_ptr<Connection>> open_;
  std::unordered_map<std::string, int64_t> hosts_;  // open ones per address
  std::vector<std::weak_ptr<Connection>> new_;      // bounded
  std::set<std::string, std::less<>> expected_;
  ConnectionCounts counts_;
  std::optional<Connection::Time> full_at_;  // of the last refusal for kLimit
};

}  // namespace mnemon
