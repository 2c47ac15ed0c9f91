// SPDX-License-Identifier: MIT
// Constants of the step form that the rest of the model library shares.
#pragma once

namespace mnemon {

// Positions per block of growing state: the width of a vector of positions, and the
// unit of attention's reduction, counted from a session's absolute position 0.
inline constexpr int kBlockPositions = 16;

// Most tokens one Segment may carry.
inline constexpr int kMaxChunk = 64;

}  // namespace mnemon
