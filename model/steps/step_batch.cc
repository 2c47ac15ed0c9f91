// SPDX-License-Identifier: MIT
#include "model/steps/step_batch.h"

#include "base/reserve.h"

namespace mnemon {

void StepBatch::Reserve(int64_t rows, int64_t block_count) {
  ReserveAtLeast(runs, rows);
  ReserveAtLeast(ids, rows);
  ReserveAtLeast(positions, rows);
  ReserveAtLeast(places, rows);
  ReserveAtLeast(wanted, rows);
  ReserveAtLeast(blocks, block_count);
}

void StepBatch::Clear() {
  runs.clear();
  ids.clear();
  positions.clear();
  blocks.clear();
  places.clear();
  wanted.clear();
}

void StepBatch::Add(const Segment& segment, StateArena& arena) {
  const bool growing = arena.spec().growing();
  const auto count = static_cast<int64_t>(segment.tokens.size());
  const int64_t end = segment.position + count;
  Run run{.slot = segment.slot,
          .first = rows(),
          .count = count,
          .position = segment.position};
  if (growing) {
    run.block = static_cast<int64_t>(blocks.size());
    run.base = arena.first_held(segment.slot) / kBlockPositions;
    for (int64_t b = run.base; b * kBlockPositions < end; ++b) {
      blocks.push_back(arena.Block(segment.slot, b));
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = segment.position + i;
    ids.push_back(segment.tokens[i]);
    positions.push_back(position);
    if (growing) {
      places.push_back({.block = arena.Block(segment.slot, position / kBlockPositions),
                        .slot = position % kBlockPositions});
    }
  }
  const int64_t last = rows() - 1;
  if (segment.logits == LogitsMode::kAll) {
    for (int64_t r = run.first; r <= last; ++r) {
      wanted.push_back(static_cast<int32_t>(r));
    }
  } else if (segment.logits == LogitsMode::kLast) {
    wanted.push_back(static_cast<int32_t>(last));
  }
  runs.push_back(run);
}

}  // namespace mnemon
