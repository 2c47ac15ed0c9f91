// SPDX-License-Identifier: MIT
// The rows of a batch as the operations of the CPU take them, wave by wave, and the
// buffers that they go through.
#pragma once

#include <cstdint>
#include <vector>

#include "base/partition.h"
#include "model/kernels/kernels.h"
#include "model/kernels/row_buffer.h"
#include "model/program/step_batch.h"
#include "model/program/step_partition.h"
#include "model/program/step_program.h"
#include "model/state/arena.h"

namespace mnemon {

struct CpuRows {
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
  std::vector<KeyRange> key_ranges;
  std::vector<Place> places;  // none without growing entries
  // With several waves: the row of logits of each, -1: none.
  std::vector<int32_t> logits_of;

  std::vector<FastWeightRun> runs;  // none without fixed entries
  std::vector<int32_t> wanted;      // as of StepBatch, with one wave

  int64_t logits_rows = 0;
  bool one_session_twice = false;  // in a wave

  // May throw std::bad_alloc.
  void Reserve(int64_t rows);
  // Runs begin .. end-1 of a batch. Takes no memory.
  void Fill(const StepProgram& program, const StepBatch& batch, Part runs,
            StateArena& arena);

 private:
  void AddRow(const StepProgram& program, const StepBatch& batch,
              const StepBatch::Run& run, const BlockTable& table, int64_t i);
};

// Of one worker, or of all together.
struct CpuBuffers {
  RowBuffer x;          // [levels][rows of the wave, D]
  RowBuffer projected;  // [rows, outputs of the widest projection]
  RowBuffer beta;       // [rows, H]
  RowBuffer mixed;      // [rows, D]
  RowBuffer hidden;     // [rows, F]
  RowBuffer memory;     // [rows, D]
  RowBuffer maps;       // [rows, outputs of RememberOp::maps]
  RowBuffer last;       // [rows of logits, D], with several waves
  int64_t rows = 0;     // that there is room for

  // May throw std::bad_alloc.
  void MakeRoom(const StepProgram& program, int64_t room);

  // x of a wave of `count` rows behind so many layers.
  Rows Level(int64_t level, int64_t count) {
    const Rows all = x.rows();
    return {all.row(level * count), all.stride};
  }
};

// Parts of sums that the workers exchange (StepPartition::Way::kByHead).
struct CpuParts {
  // May throw std::bad_alloc.
  CpuParts(int64_t slices, int64_t width) {
    rows.Resize((slices + 1) * kRowsByHead, width);
    scales.Resize(kRowsByHead, slices);
  }
  int64_t stride() { return kRowsByHead * rows.rows().stride; }

  RowBuffer rows;    // [slices + 1][kRowsByHead, D]
  RowBuffer scales;  // [kRowsByHead, slices], of a matrix in int8
};

}  // namespace mnemon
