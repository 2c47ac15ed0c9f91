// SPDX-License-Identifier: MIT
#include "train/report/palette.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "model/families/families.h"

namespace mnemon {
namespace {

constexpr size_t kColourCount = std::size(kColours);

}  // namespace

LineStyle StyleOfArchitecture(std::string_view architecture, size_t before) {
  const std::vector<std::string> names = TypedNames();
  const auto i =
      static_cast<size_t>(std::ranges::find(names, architecture) - names.begin());
  if (i == names.size()) {
    return {.colour = kOtherColour, .dash = before, .mark = kColourCount};
  }
  return {.colour = kColours[i % kColourCount],
          .dash = before + i / kColourCount,
          .mark = i % kColourCount};
}

LineStyle StyleOfLine(size_t i) {
  return {.colour = kColours[i % kColourCount],
          .dash = i / kColourCount,
          .mark = i % kColourCount};
}

}  // namespace mnemon
