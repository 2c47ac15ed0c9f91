// SPDX-License-Identifier: MIT
#include "model/steps/step_batch.h"

#include "base/reserve.h"

namespace mnemon {

void StepBatch::Reserve(int64_t rows) {
  ReserveAtLeast(runs, rows);
  ReserveAtLeast(ids, rows);
  ReserveAtLeast(positions, rows);
  ReserveAtLeast(places, rows);
  ReserveAtLeast(wanted, rows);
}

void StepBatch::Clear() {
  runs.clear();
  ids.clear();
  positions.clear();
  places.clear();
  wanted.clear();
}

void StepBatch::Add(const Segment& segment, const StateArena& arena) {
  const bool growing = arena.spec().growing();
  const auto count = static_cast<int64_t>(segment.tokens.size());
  const Run run{.slot = segment.slot,
                .first = rows(),
                .count = count,
                .position = segment.position,
                .table = arena.Table(segment.slot)};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = segment.position + i;
    ids.push_back(segment.tokens[i]);
    positions.push_back(position);
    if (growing) {
      places.push_back({.block = run.table.block(position / kBlockPositions),
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
