// SPDX-License-Identifier: MIT
// The memory of an engine by kind, under one limit, and requests of those who find none
// left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/byte_budget.h"

namespace mnemon {

// Shared, because calls and sessions may outlive their engine.
struct EngineMemory {
  // `vocabularies`: V of each model, 0 of a predictor.
  EngineMemory(int64_t limit, std::vector<int64_t> vocabularies)
      : vocabs(std::move(vocabularies)), budget(limit) {}

  const std::vector<int64_t> vocabs;  // they decide what tokens take
  ByteBudget budget;
  ByteAccount state{budget};      // runs of blocks, in use or in reserve: see BlockRuns
  ByteAccount histories{budget};  // sessions and their tokens, those of waiting prompts
                                  // included
  ByteAccount images{budget};     // states that left a device's memory
  ByteAccount queue{budget};      // parts to score, counts of penalties
  ByteAccount output{budget};     // tokens that wait for their consumers
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
