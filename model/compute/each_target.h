// SPDX-License-Identifier: MIT
// Every target of Highway that this build and machine have, one after the other.
#pragma once

#include <cstdint>

#include <hwy/highway.h>

namespace mnemon {

// Calls `visit` once for each, the best first; within it HWY_DYNAMIC_DISPATCH chooses
// that target. One thread: no other may dispatch meanwhile.
template <class Visit>
void ForEachTarget(const Visit& visit) {
  // Dispatch chooses by the targets that it takes the machine to have.
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    visit();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace mnemon
