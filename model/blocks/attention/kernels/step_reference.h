// SPDX-License-Identifier: MIT
// Direct implementation of the equations in calls.h, not vectorised by hand.
#pragma once

#include "model/blocks/attention/kernels/calls.h"

namespace mnemon::reference {

// See CpuOperations.
void Turn(const TurnCall& call, Share share);
bool Append(const AppendCall& call, Share share);
void Attend(const AttendCall& call, Share share, float* scratch);

}  // namespace mnemon::reference
