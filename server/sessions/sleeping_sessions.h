// SPDX-License-Identifier: MIT
// What the directory keeps in memory of sleeping sessions: a block of some 40 bytes and
// its strings for each, found by id and by creating request.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/btree_set.h"
#include "base/memory/byte_budget.h"

namespace mnemon {

// Facts that the store does not have.
struct SleepingFacts {
  uint32_t model = 0;
  uint64_t nonce = 0;  // with the next two, its etag
  uint64_t updates = 0;
  uint64_t taken_back = 0;  // newer updates that were undone
  uint64_t version = 0;     // of its history
  uint64_t sleep = 0;       // unique for each time that a session falls asleep
  std::chrono::system_clock::time_point last_use_time;
  // max(): it never expires.
  std::chrono::steady_clock::time_point expiry =
      std::chrono::steady_clock::time_point::max();
};

struct SleepingSession {
  std::string_view id;
  std::string_view request_id;  // of the request that created it, or empty
  SleepingFacts facts;
};

// Guarded by its owner's mutex. O(log n). Allocates only where noted, and changes
// nothing when it throws std::bad_alloc.
class SleepingSessions {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // One session, allocated before the mutex is locked.
  class Block {
   public:
    // Throws std::bad_alloc.
    explicit Block(const SleepingSession& session);

    SleepingSession Read() const;  // strings are valid while the block exists
    std::string_view id() const;
    Time expiry() const;
    void SetExpiry(Time expiry);
    int64_t bytes() const;  // with its nodes in the sets

   private:
    friend class SleepingSessions;

    SleepingSession Read(const char*& end) const;

    std::unique_ptr<char[]> bytes_;
  };

  // `charge` counts the memory of all blocks.
  explicit SleepingSessions(ByteCharge charge) : charge_(std::move(charge)) {}

  // REQUIRES: id and request id are unique. Throws std::bad_alloc.
  void Add(Block block);
  // nullopt: it is not there.
  std::optional<Block> Take(std::string_view id);
  // Strings are valid until the session is taken.
  std::optional<SleepingSession> Find(std::string_view id) const;
  // The id of the session that the request created.
  std::optional<std::string_view> FindRequest(std::string_view request_id) const;
  // Orders what has keys of the kind Key.
  template <class Key>
  struct By {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return Key::Of(a) < Key::Of(b);
    }
  };
  struct Id {
    static std::string_view Of(std::string_view id) { return id; }
    static std::string_view Of(const Block& block) { return block.id(); }
  };
  // Ordered by id. An iterator is valid until a session is added or taken.
  using Blocks = absl::btree_set<Block, By<Id>>;
  const Blocks& blocks() const { return by_id_; }

  // A lower bound of the times when sessions expire.
  Time due() const { return std::min(due_, look_began_); }
  // Looks at the next kLookedAtOnce sessions and appends ids of those that have expired
  // by `now` to `expired`, up to its capacity. False: it has seen all. The next round
  // begins kLookAgain later at the earliest, and finds again what was not taken.
  bool LookForExpired(Time now, std::vector<std::string>& expired);

  int64_t size() const { return static_cast<int64_t>(by_id_.size()); }
  int64_t bytes() const { return charge_.bytes(); }

 private:
  static constexpr std::chrono::seconds kLookAgain{1};
  static constexpr size_t kLookedAtOnce = 64;

  // Where a request id lies in the bytes of a block.
  struct RequestId {
    static std::string_view Of(std::string_view request_id) { return request_id; }
    static std::string_view Of(const char* block);
  };

  ByteCharge charge_;
  Blocks by_id_;
  absl::btree_set<const char*, By<RequestId>> by_request_;
  Time due_ = Time::max();
  Time look_began_ = Time::max();  // of an unfinished round
  std::string look_from_;          // id where it goes on
  Time look_next_;                 // the first expiry that it has seen, past or not
};

}  // namespace mnemon
