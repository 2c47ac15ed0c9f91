// SPDX-License-Identifier: MIT
// The open connections of a server by peer, and counts of those that came and went.
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
  kHostLimit,    // likewise of its address
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
  bool full = false;            // one was refused just now, since there were too many
  int64_t in_flight_bytes = 0;  // received, of calls that have not ended
  int64_t in_flight_limit = 0;
  int64_t early_resets = 0;  // streams that were reset before their call began
  int64_t accepted = 0;      // since the start, as what follows
  std::array<int64_t, kRefusalReasons> refused{};
  std::array<int64_t, kShutDownReasons> shut_down{};
};

// Safe for concurrent use.
class ConnectionTable {
 public:
  // Any number below 1 counts as 1.
  ConnectionTable(int64_t limit, int64_t host_limit);

  // Whether one more from this host may be accepted now; the peer of an expected
  // connection always may.
  enum class Room { kFree, kFull, kHostFull };
  Room RoomFor(const Connection& connection) const;
  void Add(std::shared_ptr<Connection> connection);
  // It has ended.
  void Remove(const Connection& connection);
  // Null: none of this peer is open.
  std::shared_ptr<Connection> Find(std::string_view peer) const;
  std::vector<std::shared_ptr<Connection>> All() const;
  // Those that were added since the last time; for one caller.
  std::vector<std::shared_ptr<Connection>> TakeNew();
  // Of those without a call, or the bytes of one that arrive, since `limit` or before,
  // the first `most`: those that have not greeted before the others, and of either
  // those that have been so longest; of the given host, or of all when `host` is empty.
  // Takes O(connections).
  std::vector<std::shared_ptr<Connection>> LongestIdle(const std::string& host,
                                                       Connection::Time limit,
                                                       size_t most) const;

  // The peer, as PeerText writes it, of a connection that this process makes itself:
  // it counts to no limit.
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
  std::optional<Connection::Time> full_at_;  // when one was refused for that last
};

}  // namespace mnemon
