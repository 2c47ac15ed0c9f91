// SPDX-License-Identifier: MIT
// Carries of the sequence form as states of a step program.
#pragma once

#include <cstdint>

#include "model/kernels/cpu_team.h"
#include "model/program/step_program.h"
#include "model/state/arena.h"
#include "model/weights/weights.h"

namespace mnemon {

// As StepRunner::Import: memories become keys and values by the RememberOp; layer
// inputs by the projections of the AttentionOps, where the carry has one entry for
// each; else it has the key and the value of each; W and z of FastWeightsOps are
// copied. Whether all that was written is finite.
bool ImportCarry(const StepProgram& program, int64_t position, const TensorViews& carry,
                 StateArena& arena, int32_t slot, CpuTeam& team);

}  // namespace mnemon
