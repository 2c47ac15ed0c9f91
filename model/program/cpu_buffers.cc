// SPDX-License-Identifier: MIT
#include "model/program/cpu_buffers.h"

namespace mnemon {

void CpuBuffers::MakeRoom(const StepProgram& program, int64_t room) {
  if (room <= rows) return;
  rows = 0;  // should memory run out
  const StepWidths widths = WidthsOf(program);
  if (program.remember) {
    memory.Resize(room, program.width);
    maps.Resize(room, program.remember->maps.outputs);
    last.Resize(room, program.width);
  }
  x.Resize(program.levels() * room, program.width);
  projected.Resize(room, widths.projected);
  if (widths.gate > 0) beta.Resize(room, widths.gate);
  mixed.Resize(room, program.heads * program.head_width);
  hidden.Resize(room, program.hidden);
  rows = room;
}

}  // namespace mnemon
