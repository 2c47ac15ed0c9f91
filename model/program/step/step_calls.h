// SPDX-License-Identifier: MIT
// The calls (kernels.h) of the operations of a step program, on rows and buffers at
// given addresses, which may be a device's.
#pragma once

#include <array>

#include "model/blocks/attention/kernels/calls.h"
#include "model/blocks/fast_weights/calls.h"
#include "model/compute/kernels.h"
#include "model/program/step/step_program.h"

namespace mnemon {

// Rows that go through a program together, as its calls take them.
struct WaveView {
  int64_t rows = 0;
  int64_t groups = 0;                  // see AttendCall
  int64_t runs = 0;                    // see FastWeightCall
  const int32_t* tokens = nullptr;     // [rows]
  const int64_t* positions = nullptr;  // [rows]
  // [rows] of growing entries, for each reach of the program.
  std::array<const KeyRange*, kMostReaches> key_ranges = {};
  const Place* places = nullptr;       // [rows]
  const FastWeightRun* run = nullptr;  // [runs], for fixed entries
};

// Buffers for the rows of a wave.
struct StepBuffers {
  Rows x;                  // [levels][level_rows, D]
  int64_t level_rows = 0;  // at least the rows of the wave
  Rows projected;          // [rows, StepSizes::projected]
  Rows beta;               // [rows, StepSizes::gate]
  Rows mixed;              // [rows, StepSizes::mixed]
  Rows hidden;             // [rows, StepSizes::hidden]
  Rows memory;             // [rows, D]
  Rows maps;               // [rows, outputs of RememberOp::maps]

  // x after `level` layers.
  Rows Level(int64_t level) const { return {x.row(level * level_rows), x.stride}; }
};

EmbedCall CallOf(const StepProgram& program, const WaveView& wave, Rows x);
// TurnCall and AppendCall of an operation that has them.
TurnCall TurnOf(const AttentionOp& op, const WaveView& wave, Rows projected);
AppendCall AppendOf(const AttentionOp& op, const WaveView& wave, Rows projected);
AttendCall CallOf(const AttentionOp& op, const WaveView& wave, Rows projected,
                  Rows mixed);
FastWeightCall CallOf(const FastWeightsOp& op, const WaveView& wave, Rows projected,
                      ConstRows beta, Rows mixed);
MixCall CallOf(const RememberOp& op, const StepProgram& program, int64_t rows,
               const StepBuffers& buffers, Rows memory);
// AppendCall for layer `layer`.
AppendCall AppendOf(const RememberOp& op, size_t layer, const WaveView& wave,
                    Rows maps);

}  // namespace mnemon
