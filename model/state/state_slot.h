// SPDX-License-Identifier: MIT
// A slot of a StateArena, for the arena and its saved states.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "model/compute/kernels.h"
#include "model/state/block_list.h"
#include "model/state/state.h"

namespace mnemon {

// Blocks that hold positions below `length`.
inline int64_t BlocksOf(int64_t length) {
  return (length + kBlockPositions - 1) / kBlockPositions;
}

// Part of a list of blocks.
struct BlockRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// `list` holds the blocks from position first_block * kBlockPositions on; null if there
// are none. Rows up to `reserved` can be used.
struct StateSlot {
  bool used = false;
  int32_t next_free = -1;
  int64_t length = 0;
  int64_t reserved = 0;
  int64_t floor = 0;
  int64_t first_block = 0;
  int64_t start = 0;  // rows before it never existed, even within a block
  std::unique_ptr<BlockList> list;
  StateBlock* fixed = nullptr;

  int64_t blocks() const { return list ? list->size() : 0; }

  // The part of the list that a query at position `at` can see.
  BlockRange Visible(const StateSpec& spec, int64_t at) const {
    const int64_t end = std::min(blocks(), BlocksOf(at) - first_block);
    if (spec.growth() != Growth::kRing) return {0, end};
    const int64_t oldest = std::max<int64_t>(0, at - spec.capacity());
    return {std::clamp<int64_t>(oldest / kBlockPositions - first_block, 0, end), end};
  }
};

}  // namespace mnemon
