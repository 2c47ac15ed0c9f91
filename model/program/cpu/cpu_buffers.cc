// SPDX-License-Identifier: MIT
#include "model/program/cpu/cpu_buffers.h"

namespace mnemon {

void CpuBuffers::MakeRoom(const StepProgram& program, int64_t room) {
  if (room <= rows) return;
  rows = 0;  // in case of an exception
  const StepSizes sizes = SizesOf(program);
  if (program.remember) {
    memory.Resize(room, program.width);
    maps.Resize(room, program.remember->maps.outputs);
    last.Resize(room, program.width);
  }
  x.Resize(program.levels() * room, program.width);
  projected.Resize(room, sizes.projected);
  if (sizes.gate > 0) beta.Resize(room, sizes.gate);
  mixed.Resize(room, sizes.mixed);
  hidden.Resize(room, sizes.hidden);
  rows = room;
}

}  // namespace mnemon
