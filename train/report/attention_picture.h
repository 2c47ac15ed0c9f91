// SPDX-License-Identifier: MIT
// Attention maps as a picture.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/memory/aligned_floats.h"

namespace mnemon {

struct AttentionPicture {
  std::span<const int32_t> tokens;         // [T]
  int64_t heads = 1;                       // H
  std::span<const UnsetFloats> maps = {};  // per layer [H, T, T]
  std::string title = {};
};

// Draws an SVG file with a row of maps per layer: the mean over the heads, then each
// head. Row i of a map is the query position and column j the key position, from the
// top left. Weights from 0 to 1 are drawn darker (on a dark page brighter) the larger
// they are. REQUIRES: every map has H T T numbers.
std::string DrawAttention(const AttentionPicture& picture);

}  // namespace mnemon
