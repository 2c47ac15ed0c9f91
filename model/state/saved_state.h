// SPDX-License-Identifier: MIT
// Handles to states that a StateArena keeps of its slots. A handle is empty when made;
// the arena fills and empties it on its owner's thread. If a full handle is destroyed,
// its blocks count as used until the arena is destroyed.
#pragma once

#include <cstdint>
#include <memory>

#include "model/state/block_list.h"

namespace mnemon {

// Earlier values of a slot's fixed entries.
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

// The state of a slot at a position: for this slot to return to, or, if whole, for any
// slot.
class SavedState {
 public:
  SavedState() = default;
  SavedState(SavedState&& other) noexcept;
  SavedState& operator=(SavedState&& other) noexcept;  // REQUIRES: empty

  bool empty() const { return position_ < 0; }
  // Computed tokens. REQUIRES: not empty.
  int64_t position() const { return position_; }
  // Blocks that it holds, including those shared with slots.
  int64_t blocks() const { return list_ ? list_->size() : 0; }

 private:
  friend class SavedStates;
  friend class StateImage;

  int64_t position_ = -1;
  int64_t first_block_ = 0;
  int64_t start_ = 0;  // rows before it never existed
  bool whole_ = false;
  SavedFixed fixed_;                 // empty at position 0
  std::unique_ptr<BlockList> list_;  // for a ring, or if whole
};

}  // namespace mnemon
