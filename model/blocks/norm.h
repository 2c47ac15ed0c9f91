// SPDX-License-Identifier: MIT
#pragma once

namespace mnemon {

// Of the input of a sub-layer. kKept: its tensors are in the file, and nothing applies
// them.
enum class Norm { kNone, kLayer, kKept };

}  // namespace mnemon
