// SPDX-License-Identifier: MIT
// The way of a worker through a step program, wave by wave, whatever its share of the
// operations is.
#pragma once

#include <algorithm>
#include <vector>

#include "model/compute/row_buffer.h"
#include "model/operations/cpu_team.h"
#include "model/program/step_program.h"
#include "model/program/step_rows.h"

namespace mnemon {

// begin(wave) embeds its rows, pass.BeginLayer() goes before the operations of a layer,
// pass(op) does one, pass.x() is where the rows of the wave lie. `last`: as of
// CpuBuffers, of all workers together. The head is divided among them; `logits`
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
    // The next wave takes the place of the rows whose logits are wanted.
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
