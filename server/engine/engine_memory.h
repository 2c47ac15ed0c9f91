// SPDX-License-Identifier: MIT
// The memory of an engine by kind, under one limit with shares for what stays when no
// call runs, and requests of those who find none left.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/byte_budget.h"

namespace mnemon {

// What of an engine's memory may be taken by what stays when no call runs, so that the
// rest is there for calls, with a session or without, whatever there is of the former.
// States are part of that rest: those of sessions at rest make way for calls.
struct MemoryShares {
  // Of sessions and their histories together: a half of `limit`, or what leaves `calls`
  // of it where that is less; an eighth at least.
  int64_t resting = ByteBudget::kUnlimited;
  // Of that, of sessions without their tokens: three quarters.
  int64_t sessions = ByteBudget::kUnlimited;
  // And of that again, of what is made new: seven eighths. What sessions that are there
  // come to remember has the rest.
  int64_t new_sessions = ByteBudget::kUnlimited;

  static constexpr MemoryShares Of(int64_t limit, int64_t calls) {
    if (limit == ByteBudget::kUnlimited) return {};
    MemoryShares shares;
    shares.resting = std::max(limit / 8, std::min(limit / 2, limit - calls));
    shares.sessions = shares.resting / 4 * 3;
    shares.new_sessions = shares.sessions / 8 * 7;
    return shares;
  }
  // The limit of which sessions leave `calls`.
  static constexpr int64_t LeastFor(int64_t calls) { return calls / 7 * 8 + 8; }
};

// Shared, because calls and sessions may outlive their engine.
struct EngineMemory {
  // `vocabularies`: V of each model, 0 of a predictor. `calls`: of MemoryShares::Of.
  EngineMemory(int64_t limit, std::vector<int64_t> vocabularies, int64_t calls = 0)
      : vocabs(std::move(vocabularies)),
        shares(MemoryShares::Of(limit, calls)),
        budget(limit) {}

  const std::vector<int64_t> vocabs;  // they decide what tokens take
  const MemoryShares shares;
  ByteBudget budget;
  ByteBudget resting{shares.resting, &budget};
  ByteBudget small{shares.sessions, &resting};
  ByteAccount sessions{small};      // sessions and checkpoints, but for their tokens
  ByteAccount unusable{small};      // ids of sessions that are not there, and why
  ByteAccount histories{resting};   // of sessions, prompts that wait included
  ByteAccount prompts{budget};      // histories of calls without a session, and copies
  ByteAccount state{budget};        // runs of blocks, in use or in reserve: BlockRuns
  ByteAccount images{budget};       // states that left a device's memory
  ByteAccount queue{budget};        // parts to score, counts of penalties
  ByteAccount output{budget};       // tokens that wait for their consumers
  ByteAccount predictions{budget};  // inputs, intermediate values, answers
};

// Of null: counts nothing.
inline ByteCharge ChargeOf(const std::shared_ptr<EngineMemory>& memory,
                           ByteAccount EngineMemory::*kind) {
  if (memory == nullptr) return {};
  return ByteCharge(std::shared_ptr<ByteAccount>(memory, &(memory.get()->*kind)));
}

// Those who can give memory up: one for each model, then others. Constant before the
// first call.
class MemoryGivers {
 public:
  // Asks to give up about `bytes`, from any thread; false: it has none to give.
  using Giver = std::function<bool(int64_t bytes)>;

  void Set(std::vector<Giver> givers) { givers_ = std::move(givers); }
  // Asks all but the one of the model `except`. Whether any has something to give.
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
