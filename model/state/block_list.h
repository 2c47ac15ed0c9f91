// SPDX-License-Identifier: MIT
// The blocks of a slot or of a saved state, by position, with a parallel table of the
// addresses of their numbers that steps use directly.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/memory/reserve.h"
#include "model/state/block_runs.h"

namespace mnemon {

// Not safe for concurrent use.
class BlockList {
 public:
  int64_t size() const { return static_cast<int64_t>(blocks_.size()); }
  StateBlock* operator[](int64_t i) const { return blocks_[i]; }
  // The `floats` of each block; valid until the list changes.
  float* const* table() const { return table_.data(); }

  // Makes room for `count` blocks. This and Assign throw std::bad_alloc without effect.
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
  // Moves the blocks from `end` on up.
  void Erase(int64_t begin, int64_t end) {
    blocks_.erase(blocks_.begin() + begin, blocks_.begin() + end);
    table_.erase(table_.begin() + begin, table_.begin() + end);
    known_ -= std::clamp<int64_t>(known_ - begin, 0, end - begin);
  }
  // Copies blocks [begin, end) of another list into an empty one.
  void Assign(const BlockList& other, int64_t begin, int64_t end) {
    Reserve(end - begin);
    for (int64_t i = begin; i < end; ++i) Push(other[i]);
  }

  // The first block that was added since the last call; any after it may be new as
  // well.
  int64_t TakeFirstNew() { return std::exchange(known_, size()); }
  // For use by another slot, for which all blocks are new.
  void SetAllNew() { known_ = 0; }

  BlockList* next = nullptr;  // belongs to the pool once freed

 private:
  std::vector<StateBlock*> blocks_;
  std::vector<float*> table_;
  int64_t known_ = 0;  // blocks present at the last TakeFirstNew
};

}  // namespace mnemon
