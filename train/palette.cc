// SPDX-License-Identifier: MIT
#include "train/palette.h"

#include <iterator>

namespace mnemon {
namespace {

constexpr size_t kColours = std::size(kArchitectureColours);

}  // namespace

LineStyle StyleOfArchitecture(std::string_view architecture, size_t before) {
  for (size_t i = 0; i < kColours; ++i) {
    if (kArchitectureColours[i].architecture == architecture) {
      return {.colour = kArchitectureColours[i].colour, .dash = before, .mark = i};
    }
  }
  return {.colour = kOtherColour, .dash = before, .mark = kColours};
}

LineStyle StyleOfLine(size_t i) {
  return {.colour = kArchitectureColours[i % kColours].colour,
          .dash = i / kColours,
          .mark = i % kColours};
}

}  // namespace mnemon
