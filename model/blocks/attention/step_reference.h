// SPDX-License-Identifier: MIT
// The equations of calls.h as they are written, nothing vectorised by hand.
#pragma once

#include "model/blocks/attention/calls.h"

namespace mnemon::reference {

// As those of CpuOperations.
void Turn(const TurnCall& call, Share share);
bool Append(const AppendCall& call, Share share);
void Attend(const AttendCall& call, Share share, float* scratch);

}  // namespace mnemon::reference
