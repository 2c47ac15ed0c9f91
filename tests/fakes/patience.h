// SPDX-License-Identifier: MIT
// How long tests wait.
#pragma once

#include <chrono>

namespace mnemon {

// For what another thread or process does: longer than that takes on any machine,
// whatever else runs there, so that only what hangs comes to it.
inline constexpr std::chrono::seconds kPatience{300};

}  // namespace mnemon
