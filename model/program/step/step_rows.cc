// SPDX-License-Identifier: MIT
#include "model/program/step/step_rows.h"

#include <algorithm>

#include "base/check.h"
#include "base/memory/reserve.h"

namespace mnemon {

void StepRows::Reserve(int64_t rows) {
  ReserveAtLeast(waves, rows);
  ReserveAtLeast(tokens, rows);
  ReserveAtLeast(positions, rows);
  for (std::vector<KeyRange>& ranges : key_ranges) ReserveAtLeast(ranges, rows);
  ReserveAtLeast(places, rows);
  ReserveAtLeast(logits_of, rows);
  ReserveAtLeast(drawn, rows);
  ReserveAtLeast(runs, rows);
  ReserveAtLeast(wanted, rows);
}

void StepRows::AddRow(const StepProgram& program, const StepBatch& batch,
                      const StepBatch::Run& run, const Tables& tables, int64_t i) {
  const int64_t position = run.position + i;
  const int32_t token = batch.tokens[run.first + i];
  if (token < 0) {
    drawn.push_back({.slot = run.slot, .row = static_cast<int64_t>(tokens.size())});
  }
  tokens.push_back(token);
  positions.push_back(position);
  const BlockTable& table = tables.blocks;
  if (table.blocks == nullptr) return;
  places.push_back({.block = table.block(position / kBlockPositions),
                    .slot = position % kBlockPositions});
  for (size_t i = 0; i < program.reaches.size(); ++i) {
    const int64_t first = program.FirstSeen(position, i);
    MNEMON_CHECK(first / kBlockPositions >= table.base);  // never below the floor
    key_ranges[i].push_back({.blocks = tables.keys.blocks,
                             .base = tables.keys.base,
                             .first = first,
                             .last = program.LastSeen(position),
                             .query = position});
  }
  // The farthest reach has most groups.
  waves.back().groups = std::max(waves.back().groups, KeyGroups(key_ranges[0].back()));
}

void StepRows::Fill(const StepProgram& program, const StepBatch& batch, Part part,
                    StateArena& arena, KeyTables keys) {
  waves.clear();
  tokens.clear();
  positions.clear();
  for (std::vector<KeyRange>& ranges : key_ranges) ranges.clear();
  places.clear();
  logits_of.clear();
  drawn.clear();
  runs.clear();
  wanted.clear();
  one_session_twice = false;
  const bool growing = arena.spec().growing();
  const bool fixed = arena.spec().fixed_elements() > 0;
  const auto tables_of = [&](const StepBatch::Run& run) -> Tables {
    if (!growing) return {};
    return {.blocks = arena.Table(run.slot), .keys = keys(run.slot)};
  };
  // First wanted row of this part.
  auto next = batch.wanted.begin();
  if (part.size() > 0) {
    next = std::ranges::lower_bound(batch.wanted, batch.runs[part.begin].first);
  }
  const auto first_wanted = next;
  const auto is_wanted = [&](int64_t row) {
    const bool is = next != batch.wanted.end() && *next == row;
    next += is;
    return is;
  };
  int64_t most = 0;
  for (int64_t r = part.begin; r < part.end; ++r) {
    if (batch.runs[r].slot >= 0) most = std::max(most, batch.runs[r].count);
  }
  if (!program.remember || most <= 1) {
    waves.push_back({});
    for (int64_t r = part.begin; r < part.end; ++r) {
      const StepBatch::Run& run = batch.runs[r];
      if (run.slot < 0) continue;
      const Tables tables = tables_of(run);
      const auto first = static_cast<int64_t>(tokens.size());
      one_session_twice = one_session_twice || run.count > 1;
      for (int64_t i = 0; i < run.count; ++i) {
        if (is_wanted(run.first + i)) {
          wanted.push_back(static_cast<int32_t>(tokens.size()));
        }
        AddRow(program, batch, run, tables, i);
      }
      if (fixed) {
        runs.push_back(
            {.first = first, .count = run.count, .fixed = arena.Fixed(run.slot, 0)});
      }
    }
    waves[0].rows = static_cast<int64_t>(tokens.size());
    logits_rows = static_cast<int64_t>(wanted.size());
    return;
  }
  for (int64_t i = 0; i < most; ++i) {
    waves.push_back({.first = static_cast<int64_t>(tokens.size())});
    for (int64_t r = part.begin; r < part.end; ++r) {
      const StepBatch::Run& run = batch.runs[r];
      if (run.slot < 0 || i >= run.count) continue;
      const auto at = std::lower_bound(first_wanted, batch.wanted.end(),
                                       static_cast<int32_t>(run.first + i));
      const bool is = at != batch.wanted.end() && *at == run.first + i;
      logits_of.push_back(is ? static_cast<int32_t>(at - first_wanted) : -1);
      AddRow(program, batch, run, tables_of(run), i);
    }
    waves.back().rows = static_cast<int64_t>(tokens.size()) - waves.back().first;
  }
  logits_rows = std::ranges::count_if(logits_of, [](int32_t row) { return row >= 0; });
}

}  // namespace mnemon
