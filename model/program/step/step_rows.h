// SPDX-License-Identifier: MIT
// The rows of a batch in the form that operations take, wave by wave.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/partition.h"
#include "model/blocks/attention/kernels/calls.h"
#include "model/blocks/fast_weights/calls.h"
#include "model/compute/kernels.h"
#include "model/program/step/step_batch.h"
#include "model/program/step/step_calls.h"
#include "model/program/step/step_program.h"
#include "model/state/arena.h"

namespace mnemon {

struct StepRows {
  // Rows that go through the program together: one per session with a RememberOp, else
  // all.
  struct Wave {
    int64_t first = 0;
    int64_t rows = 0;
    int64_t groups = 0;  // see AttendCall
  };

  std::vector<Wave> waves;
  // Per row.
  std::vector<int32_t> tokens;
  std::vector<int64_t> positions;
  std::array<std::vector<KeyRange>, kMostReaches> key_ranges;  // for each reach
  std::vector<Place> places;  // empty without growing entries
  // With several waves: the row of logits of each row, or -1.
  std::vector<int32_t> logits_of;

  // A row whose token was drawn by a slot.
  struct DrawnRow {
    int32_t slot = 0;
    int64_t row = 0;
  };
  std::vector<DrawnRow> drawn;

  std::vector<FastWeightRun> runs;  // empty without fixed entries
  std::vector<int32_t> wanted;      // see StepBatch; with one wave

  int64_t logits_rows = 0;
  bool one_session_twice = false;  // within a wave

  // May throw std::bad_alloc.
  void Reserve(int64_t rows);
  // Fills the rows of runs begin .. end-1 of a batch. Does not allocate.
  void Fill(const StepProgram& program, const StepBatch& batch, Part runs,
            StateArena& arena) {
    Fill(program, batch, runs, arena,
         [&arena](int32_t slot) { return arena.Table(slot); });
  }
  // The same, with key ranges in the tables that keys(slot) returns instead of the
  // arena's.
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

  // Block table of a session, and the table that its key ranges refer to.
  struct Tables {
    BlockTable blocks, keys;
  };
  void AddRow(const StepProgram& program, const StepBatch& batch,
              const StepBatch::Run& run, const Tables& tables, int64_t i);
};

}  // namespace mnemon
