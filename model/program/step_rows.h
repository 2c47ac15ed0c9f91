// SPDX-License-Identifier: MIT
// The rows of a batch as operations take them, wave by wave.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/partition.h"
#include "model/blocks/attention/calls.h"
#include "model/blocks/fast_weights/calls.h"
#include "model/compute/kernels.h"
#include "model/program/step_batch.h"
#include "model/program/step_calls.h"
#include "model/program/step_program.h"
#include "model/state/arena.h"

namespace mnemon {

struct StepRows {
  // Rows that go through the program together: of each session one, or without a
  // RememberOp all.
  struct Wave {
    int64_t first = 0;
    int64_t rows = 0;
    int64_t groups = 0;  // as of AttendCall
  };

  std::vector<Wave> waves;
  // Per row.
  std::vector<int32_t> tokens;
  std::vector<int64_t> positions;
  std::array<std::vector<KeyRange>, kMostReaches> key_ranges;  // of each reach
  std::vector<Place> places;  // none without growing entries
  // With several waves: the row of logits of each, -1: none.
  std::vector<int32_t> logits_of;

  // Rows whose tokens their slots have drawn.
  struct DrawnRow {
    int32_t slot = 0;
    int64_t row = 0;
  };
  std::vector<DrawnRow> drawn;

  std::vector<FastWeightRun> runs;  // none without fixed entries
  std::vector<int32_t> wanted;      // as of StepBatch, with one wave

  int64_t logits_rows = 0;
  bool one_session_twice = false;  // in a wave

  // May throw std::bad_alloc.
  void Reserve(int64_t rows);
  // Runs begin .. end-1 of a batch. Takes no memory.
  void Fill(const StepProgram& program, const StepBatch& batch, Part runs,
            StateArena& arena) {
    Fill(program, batch, runs, arena,
         [&arena](int32_t slot) { return arena.Table(slot); });
  }
  // The same with key ranges in other tables than the arena's: keys(slot) says in
  // which.
  using KeyTables = absl::FunctionRef<BlockTable(int32_t slot)>;
  void Fill(const StepProgram& program, const StepBatch& batch, Part runs,
            StateArena& arena, KeyTables keys);

  WaveView view(const Wave& wave) const {
    return {.rows = wave.rows,
            .groups = wave.groups,
            .runs = static_cast<int64_t>(runs.size()),
            .tokens = tokens.data() + wave.first,
            .positions = positions.data() + wave.first,
            .key_ranges = RangesFrom(wave.first),
            .places = places.data() + wave.first,
            .run = runs.data()};
  }

 private:
  std::array<const KeyRange*, kMostReaches> RangesFrom(int64_t first) const {
    std::array<const KeyRange*, kMostReaches> from = {};
    for (size_t i = 0; i < from.size(); ++i) {
      if (!key_ranges[i].empty()) from[i] = key_ranges[i].data() + first;
    }
    return from;
  }

  // Where the blocks of a session are, and the table that its key ranges are in.
  struct Tables {
    BlockTable blocks, keys;
  };
  void AddRow(const StepProgram& program, const StepBatch& batch,
              const StepBatch::Run& run, const Tables& tables, int64_t i);
};

}  // namespace mnemon
