// SPDX-License-Identifier: MIT
// The memory of an engine: accounts by kind under one limit, and requests to free
// memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/memory/byte_budget.h"

namespace mnemon {

// Shares of the memory for what stays when no call runs. The rest is for calls, and for
// states, because those of idle sessions are evicted for calls.
struct MemoryShares {
  // Sessions and histories: half of the limit, less to leave `calls`, at least an
  // eighth.
  int64_t resting = ByteBudget::kUnlimited;
  // Within `resting`, sessions without their tokens: three quarters.
  int64_t sessions = ByteBudget::kUnlimited;
  // Within `sessions`, new sessions: seven eighths; existing ones remember more.
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

}  // namespace mnemon
