// SPDX-License-Identifier: MIT
// Attention maps as a picture.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_floats.h"

namespace mnemon {

struct AttentionPicture {
  std::span<const int32_t> tokens;         // [T]
  int64_t heads = 1;                       // H
  std::span<const UnsetFloats> maps = {};  // per layer [H, T, T]
  std::string title = {};
};

// An SVG file: a row per layer, in it the mean over the heads and each head. In a map
// row i is the position that looks and column j the one looked at, both from the top
// left; the darker, on a dark page the brighter, the more, from 0 to 1. REQUIRES: every
// map has H T T numbers.
std::string DrawAttention(const AttentionPicture& picture);

}  // namespace mnemon
