// SPDX-License-Identifier: MIT
// Loop of a worker over the waves and operations of a step program, for any way of
// sharing the operations.
#pragma once

#include <algorithm>
#include <vector>

#include "model/compute/row_buffer.h"
#include "model/operations/cpu_team.h"
#include "model/program/step/step_program.h"
#include "model/program/step/step_rows.h"

namespace mnemon {

// begin(wave) embeds the wave's rows, pass.BeginLayer() precedes the operations of a
// layer, pass(op) executes one, pass.x() returns the rows of the wave. `last`: see
// CpuBuffers, shared by all workers. The workers divide the head; `logits`
// [rows.logits_rows, V].
template <class Pass, class Begin>
void Walk(const StepProgram& program, const StepRows& rows, RowBuffer& last,
          CpuWorker& together, Pass& pass, const Begin& begin, float* logits) {
  const bool waves = !rows.logits_of.empty();
  for (const StepRows::Wave& wave : rows.waves) {
    if (wave.rows == 0) continue;
    begin(wave);
    for (const std::vector<SubLayerOp>& layer : program.layers) {
      pass.BeginLayer();
      for (const SubLayerOp& op : layer) std::visit(pass, op);
    }
    // Saves the rows whose logits are wanted, since the next wave overwrites them.
    for (int64_t r = 0; waves && together.share().index == 0 && r < wave.rows; ++r) {
      const int32_t to = rows.logits_of[static_cast<size_t>(wave.first + r)];
      if (to >= 0) std::copy_n(pass.x().row(r), program.width, last.rows().row(to));
    }
    if (program.remember) pass(*program.remember);
  }
  if (rows.logits_rows == 0) return;
  if (waves) together.Sync();
  const LogitsOp& op = program.logits;
  together.Linear({.rows = rows.logits_rows,
                   .in = waves ? last.rows() : pass.x(),
                   .pick = waves ? nullptr : rows.wanted.data(),
                   .norm = op.norm,
                   .weights = op.head,
                   .scale = op.scale,
                   .cap = op.cap,
                   .out = {logits, op.head.outputs}});
}

}  // namespace mnemon
