// SPDX-License-Identifier: MIT
// The blocks of a slot or of a saved state, by position, and beside them where their
// numbers are: a block table that is there for every step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/reserve.h"
#include "model/state/block_runs.h"

namespace mnemon {

// Not safe for concurrent use.
class BlockList {
 public:
  int64_t size() const { return static_cast<int64_t>(blocks_.size()); }
  StateBlock* operator[](int64_t i) const { return blocks_[i]; }
  // Of each block, `floats`; valid until the list changes.
  float* const* table() const { return table_.data(); }

  // Room for so many. Throws std::bad_alloc; nothing changed then, likewise Assign.
  void Reserve(int64_t count) {
    ReserveAtLeast(blocks_, static_cast<size_t>(count));
    ReserveAtLeast(table_, static_cast<size_t>(count));
  }
  // REQUIRES: room.
  void Push(StateBlock* block) {
    blocks_.push_back(block);
    table_.push_back(block->floats);
  }
  // REQUIRES: not empty.
  StateBlock* Pop() {
    StateBlock* const block = blocks_.back();
    blocks_.pop_back();
    table_.pop_back();
    known_ = std::min(known_, size());
    return block;
  }
  void Put(int64_t i, StateBlock* block) {
    blocks_[i] = block;
    table_[i] = block->floats;
    known_ = std::min(known_, i);
  }
  // Those behind `end` move up.
  void Erase(int64_t begin, int64_t end) {
    blocks_.erase(blocks_.begin() + begin, blocks_.begin() + end);
    table_.erase(table_.begin() + begin, table_.begin() + end);
    known_ -= std::clamp<int64_t>(known_ - begin, 0, end - begin);
  }
  // Makes an empty list blocks [begin, end) of another.
  void Assign(const BlockList& other, int64_t begin, int64_t end) {
    Reserve(end - begin);
    for (int64_t i = begin; i < end; ++i) Push(other[i]);
  }

  // The first block that was put here since the last call; those behind it may have
  // been, too.
  int64_t TakeFirstNew() { return std::exchange(known_, size()); }
  // For another slot, where nothing was put yet.
  void SetAllNew() { known_ = 0; }

  BlockList* next = nullptr;  // belongs to the pool once given back

 private:
  std::vector<StateBlock*> blocks_;
  std::vector<float*> table_;
  int64_t known_ = 0;  // blocks that were there at the last TakeFirstNew
};

}  // namespace mnemon
