// SPDX-License-Identifier: MIT
// The calls (kernels.h) that the operations of a step program are made of, on rows and
// buffers at given addresses, which may be a device's.
#pragma once

#include <array>

#include "model/blocks/attention/calls.h"
#include "model/blocks/fast_weights/calls.h"
#include "model/compute/kernels.h"
#include "model/program/step_program.h"

namespace mnemon {

// Rows that go through a program together, as its calls take them.
struct WaveView {
  int64_t rows = 0;
  int64_t groups = 0;                  // as of AttendCall
  int64_t runs = 0;                    // as of FastWeightCall
  const int32_t* tokens = nullptr;     // [rows]
  const int64_t* positions = nullptr;  // [rows]
  // [rows], of growing entries; of each reach of the program
  std::array<const KeyRange*, kMostReaches> key_ranges = {};
  const Place* places = nullptr;       // likewise
  const FastWeightRun* run = nullptr;  // [runs], of fixed entries
};

// What the rows of a wave go through.
struct StepBuffers {
  Rows x;                  // [levels][level_rows, D]
  int64_t level_rows = 0;  // at least the rows of the wave
  Rows projected;          // [rows, StepSizes::projected]
  Rows beta;               // [rows, StepSizes::gate]
  Rows mixed;              // [rows, StepSizes::mixed]
  Rows hidden;             // [rows, StepSizes::hidden]
  Rows memory;             // [rows, D]
  Rows maps;               // [rows, outputs of RememberOp::maps]

  // x behind so many layers.
  Rows Level(int64_t level) const { return {x.row(level * level_rows), x.stride}; }
};

EmbedCall CallOf(const StepProgram& program, const WaveView& wave, Rows x);
// The turn, and the append, of an operation that has one.
TurnCall TurnOf(const AttentionOp& op, const WaveView& wave, Rows projected);
AppendCall AppendOf(const AttentionOp& op, const WaveView& wave, Rows projected);
AttendCall CallOf(const AttentionOp& op, const WaveView& wave, Rows projected,
                  Rows mixed);
FastWeightCall CallOf(const FastWeightsOp& op, const WaveView& wave, Rows projected,
                      ConstRows beta, Rows mixed);
MixCall CallOf(const RememberOp& op, const StepProgram& program, int64_t rows,
               const StepBuffers& buffers, Rows memory);
// That of layer `layer`.
AppendCall AppendOf(const RememberOp& op, size_t layer, const WaveView& wave,
                    Rows maps);

}  // namespace mnemon
