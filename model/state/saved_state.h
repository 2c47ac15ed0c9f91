// SPDX-License-Identifier: MIT
// Handles to what a StateArena keeps of a slot, to return to: empty when made, filled
// and emptied by the arena on its owner's thread. One that is destroyed full leaves its
// blocks counted as used until the arena is destroyed.
#pragma once

#include <cstdint>
#include <memory>

#include "model/state/block_list.h"

namespace mnemon {

// The fixed entries of a slot as they were.
class SavedFixed {
 public:
  SavedFixed() = default;
  SavedFixed(SavedFixed&& other) noexcept;
  SavedFixed& operator=(SavedFixed&& other) noexcept;  // REQUIRES: empty

  bool empty() const { return block_ == nullptr; }

 private:
  friend class SavedStates;
  friend class StateImage;

  StateBlock* block_ = nullptr;
};

// The state of a slot at a position: for the slot itself to return to, or whole, for
// any slot.
class SavedState {
 public:
  SavedState() = default;
  SavedState(SavedState&& other) noexcept;
  SavedState& operator=(SavedState&& other) noexcept;  // REQUIRES: empty

  bool empty() const { return position_ < 0; }
  // Tokens computed. REQUIRES: not empty.
  int64_t position() const { return position_; }
  // Blocks that it holds, some of them together with slots.
  int64_t blocks() const { return list_ ? list_->size() : 0; }

 private:
  friend class SavedStates;
  friend class StateImage;

  int64_t position_ = -1;
  int64_t first_block_ = 0;
  int64_t start_ = 0;  // rows before it were never there
  bool whole_ = false;
  SavedFixed fixed_;                 // empty at position 0
  std::unique_ptr<BlockList> list_;  // of a ring, or whole
};

}  // namespace mnemon
