// SPDX-License-Identifier: MIT
// The rows of a step: the tokens of some segments, segment by segment.
#pragma once

#include <cstdint>
#include <vector>

#include "model/decoder/decoder.h"
#include "model/kernels/kernels.h"
#include "model/state/arena.h"

namespace mnemon {

struct StepBatch {
  struct Run {
    int32_t slot = 0;
    int64_t first = 0;     // its first row
    int64_t count = 0;     // its rows
    int64_t position = 0;  // of its first row
    BlockTable table;      // its slot's
  };

  std::vector<Run> runs;
  std::vector<int32_t> ids;  // per row, likewise positions
  std::vector<int64_t> positions;
  std::vector<Place> places;    // per row; empty without growing entries
  std::vector<int32_t> wanted;  // rows that logits are asked of

  int64_t rows() const { return static_cast<int64_t>(ids.size()); }

  // Room for so many; may throw std::bad_alloc.
  void Reserve(int64_t rows);
  void Clear();
  // Puts a segment, whose rows are reserved, behind the others. Allocates nothing where
  // there is room.
  void Add(const Segment& segment, const StateArena& arena);
};

}  // namespace mnemon
