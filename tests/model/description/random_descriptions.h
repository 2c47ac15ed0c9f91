// SPDX-License-Identifier: MIT
// Models that no family has: blocks of any kind in any order, each with its own heads
// and widths. Property tests run over them in addition to the variants of the
// architectures.
#pragma once

#include <cstdint>
#include <vector>

#include "model/description/description.h"

namespace mnemon {

enum class RandomKind {
  kPast,    // attention and fast weights, token by token
  kMemory,  // attention to a memory
  kWhole,   // whole sequences
};

// The same for the same seed on every machine. CheckDescription accepts it.
ModelDescription RandomDescription(RandomKind kind, uint64_t seed);

// Some of each kind; kWhole only if `whole` is set.
std::vector<ModelDescription> RandomDescriptions(bool whole);

}  // namespace mnemon
