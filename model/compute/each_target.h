// SPDX-License-Identifier: MIT
// Runs code with every Highway target of this build that the machine supports.
#pragma once

#include <cstdint>

#include <hwy/highway.h>

namespace mnemon {

// Calls `visit` once per target, the best first; HWY_DYNAMIC_DISPATCH within it chooses
// that target. No other thread may dispatch meanwhile.
template <class Visit>
void ForEachTarget(const Visit& visit) {
  // Dispatch chooses from the targets that it believes the machine to support.
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    visit();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace mnemon
