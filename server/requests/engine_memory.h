// SPDX-License-Identifier: MIT
// The memory of an engine: accounts by kind under one limit, with shares for what stays
// when no call runs, and requests to free memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/memory/byte_budget.h"

namespace mnemon {

// The shares of an engine's memory for what stays when no call runs. The rest is always
// available to calls, with or without a session. States belong to the rest, because
// those of idle sessions are evicted for calls.
struct MemoryShares {
  // Sessions and their histories: half of `limit`, or less to leave `calls`, but at
  // least an eighth.
  int64_t resting = ByteBudget::kUnlimited;
  // Within `resting`, sessions without their tokens: three quarters.
  int64_t sessions = ByteBudget::kUnlimited;
  // Within `sessions`, new sessions: seven eighths. The rest is for what existing
  // sessions remember in addition.
  int64_t new_sessions = ByteBudget::kUnlimited;

  static constexpr MemoryShares Of(int64_t limit, int64_t calls) {
    if (limit == ByteBudget::kUnlimited) return {};
    MemoryShares shares;
    shares.resting = std::max(limit / 8, std::min(limit / 2, limit - calls));
    shares.sessions = shares.resting / 4 * 3;
    shares.new_sessions = shares.sessions / 8 * 7;
    return shares;
  }
  // The least limit that leaves `calls` to calls.
  static constexpr int64_t LeastFor(int64_t calls) { return calls / 7 * 8 + 8; }
};

// Shared, because calls and sessions may outlive their engine.
struct EngineMemory {
  // `vocabularies`: V of each model, 0 for a predictor. `calls`: see MemoryShares::Of.
  EngineMemory(int64_t limit, std::vector<int64_t> vocabularies, int64_t calls = 0)
      : vocabs(std::move(vocabularies)),
        shares(MemoryShares::Of(limit, calls)),
        budget(limit) {}

  const std::vector<int64_t> vocabs;  // they determine the bytes of a token
  const MemoryShares shares;
  ByteBudget budget;
  ByteBudget resting{shares.resting, &budget};
  ByteBudget small{shares.sessions, &resting};
  ByteAccount sessions{small};      // sessions and checkpoints without their tokens
  ByteAccount unusable{small};      // ids of unusable stored sessions, and why
  ByteAccount histories{resting};   // of sessions, including queued prompts
  ByteAccount prompts{budget};      // histories of calls without a session, and copies
  ByteAccount state{budget};        // runs of blocks, in use or in reserve: BlockRuns
  ByteAccount images{budget};       // states offloaded from a device
  ByteAccount queue{budget};        // parts to score, counts of penalties
  ByteAccount output{budget};       // tokens that wait for their consumers
  ByteAccount predictions{budget};  // inputs, intermediate values, answers
};

// A charge to an account of `memory`; null: it counts nothing.
inline ByteCharge ChargeOf(const std::shared_ptr<EngineMemory>& memory,
                           ByteAccount EngineMemory::*kind) {
  if (memory == nullptr) return {};
  return ByteCharge(std::shared_ptr<ByteAccount>(memory, &(memory.get()->*kind)));
}

// Functions that free memory on request: one for each model, then others. Constant from
// the first call on.
class MemoryGivers {
 public:
  // Asks for about `bytes`, from any thread. False: there is nothing to free.
  using Giver = std::function<bool(int64_t bytes)>;

  void Set(std::vector<Giver> givers) { givers_ = std::move(givers); }
  // Asks all except that of the model `except`. Returns whether any can free something.
  bool Ask(int64_t bytes, size_t except) const {
    bool any = false;
    for (size_t i = 0; i < givers_.size(); ++i) {
      if (i != except && givers_[i] && givers_[i](bytes)) any = true;
    }
    return any;
  }
  static constexpr size_t kNone = SIZE_MAX;

 private:
  std::vector<Giver> givers_;
};

}  // namespace mnemon
