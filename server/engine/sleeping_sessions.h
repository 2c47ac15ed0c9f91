// SPDX-License-Identifier: MIT
// What a directory keeps in memory of sessions that sleep: of each one block of some 40
// bytes and its texts, found by id and by the request that made it.
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
#include "base/byte_budget.h"

namespace mnemon {

// What the store does not tell of a session that sleeps.
struct SleepingFacts {
  uint32_t model = 0;
  uint64_t nonce = 0;  // with the next two, its etag
  uint64_t updates = 0;
  uint64_t taken_back = 0;  // updates that came behind these, and were refused
  uint64_t version = 0;     // of its history
  uint64_t sleep = 0;       // differs from that of every other sleep
  std::chrono::system_clock::time_point last_use_time;
  // The greatest: it never expires.
  std::chrono::steady_clock::time_point expiry =
      std::chrono::steady_clock::time_point::max();
};

struct SleepingSession {
  std::string_view id;
  std::string_view request_id;  // that made it, or empty
  SleepingFacts facts;
};

// Guarded by its owner's mutex. Operations on one session take O(log n), and need no
// memory but where they throw std::bad_alloc; then nothing has changed.
class SleepingSessions {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // One session. Made before it is added, so that no lock is held for that.
  class Block {
   public:
    // Throws std::bad_alloc.
    explicit Block(const SleepingSession& session);

    SleepingSession Read() const;  // texts are valid while the block is
    std::string_view id() const;
    Time expiry() const;
    void SetExpiry(Time expiry);
    int64_t bytes() const;  // with its places in a set

   private:
    friend class SleepingSessions;

    std::unique_ptr<char[]> bytes_;
  };

  // `charge` counts what they take.
  explicit SleepingSessions(ByteCharge charge) : charge_(std::move(charge)) {}

  // REQUIRES: no session with the id, or with its request id, is there. Throws
  // std::bad_alloc.
  void Add(Block block);
  // Absent: it is not there.
  std::optional<Block> Take(std::string_view id);
  // Texts are valid until the session is taken.
  std::optional<SleepingSession> Find(std::string_view id) const;
  // The id.
  std::optional<std::string_view> FindRequest(std::string_view request_id) const;
  // By id. An iterator is valid until a session is added or taken.
  struct ById {
    using is_transparent = void;
    static std::string_view KeyOf(std::string_view id) { return id; }
    static std::string_view KeyOf(const Block& block) { return block.id(); }
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return KeyOf(a) < KeyOf(b);
    }
  };
  using Blocks = absl::btree_set<Block, ById>;
  const Blocks& blocks() const { return by_id_; }

  // Not before then one of them expires.
  Time due() const { return std::min(due_, look_began_); }
  // Appends the ids of sessions that expire by `now` to `expired`, up to its capacity,
  // after a look at so many sessions, from where the last look has ended. False: it has
  // seen all; another one does so kLookAgain later at the earliest, and finds again
  // what was not taken.
  bool LookForExpired(Time now, std::vector<std::string>& expired);

  int64_t size() const { return static_cast<int64_t>(by_id_.size()); }
  int64_t bytes() const { return charge_.bytes(); }

 private:
  static constexpr std::chrono::seconds kLookAgain{1};
  static constexpr size_t kLookedAtOnce = 64;

  // Of the bytes of blocks.
  struct ByRequest {
    using is_transparent = void;
    static std::string_view KeyOf(std::string_view request_id) { return request_id; }
    static std::string_view KeyOf(const char* block);
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return KeyOf(a) < KeyOf(b);
    }
  };

  ByteCharge charge_;
  Blocks by_id_;
  absl::btree_set<const char*, ByRequest> by_request_;
  Time due_ = Time::max();
  Time look_began_ = Time::max();  // a look that has not seen all
  std::string look_from_;          // where it goes on
  Time look_next_;                 // the first expiry that it has seen, past or not
};

}  // namespace mnemon
