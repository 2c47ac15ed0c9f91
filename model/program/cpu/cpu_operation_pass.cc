// SPDX-License-Identifier: MIT
#include "model/program/cpu/cpu_passes.h"
#include "model/program/cpu/cpu_walk.h"
#include "model/program/step/operation_pass.h"

namespace mnemon {

void PassByOperation(const StepProgram& program, const StepRows& rows,
                     CpuBuffers& buffers, CpuWorker& worker, float* logits) {
  OperationPass pass(program, worker);
  Walk(
      program, rows, buffers.last, worker, pass,
      [&](const StepRows::Wave& wave) {
        pass.Begin(rows.view(wave), buffers.views(wave.rows), rows.one_session_twice);
      },
      logits);
}

}  // namespace mnemon
