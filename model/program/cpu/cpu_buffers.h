// SPDX-License-Identifier: MIT
// Buffers that hold the rows of a step on the CPU.
#pragma once

#include <cstdint>

#include "model/compute/row_buffer.h"
#include "model/program/step/step_calls.h"
#include "model/program/step/step_partition.h"
#include "model/program/step/step_program.h"

namespace mnemon {

// Buffers of one worker, or shared by all workers.
struct CpuBuffers {
  RowBuffer x;          // [levels][rows of the wave, D]
  RowBuffer projected;  // [rows, outputs of the widest projection]
  RowBuffer beta;       // [rows, H], H of the most heads
  RowBuffer mixed;      // [rows, H K], likewise
  RowBuffer hidden;     // [rows, F], likewise
  RowBuffer memory;     // [rows, D]
  RowBuffer maps;       // [rows, outputs of RememberOp::maps]
  RowBuffer last;       // [rows of logits, D], with several waves
  int64_t rows = 0;     // rows that fit

  // May throw std::bad_alloc.
  void MakeRoom(const StepProgram& program, int64_t room);

  // Views of the buffers for a wave of `count` rows.
  StepBuffers views(int64_t count) {
    return {.x = x.rows(),
            .level_rows = count,
            .projected = projected.rows(),
            .beta = beta.rows(),
            .mixed = mixed.rows(),
            .hidden = hidden.rows(),
            .memory = memory.rows(),
            .maps = maps.rows()};
  }
};

// Partial sums that the workers exchange (StepPartition::Way::kByHead).
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
