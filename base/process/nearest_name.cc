// SPDX-License-Identifier: MIT
#include "base/process/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace mnemon {
namespace {

// Levenshtein distance, one row at a time.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, change});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestName(std::string_view name,
                        std::span<const std::string> candidates) {
  // Input may be long; none of our names is.
  constexpr size_t kLongest = 200;
  if (name.size() > kLongest) return "";
  const std::string* best = nullptr;
  size_t least = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    size_t distance = EditDistance(name, candidate);
    // A distance equal to the length shares nothing with the name.
    if (distance < least && distance < std::max(name.size(), candidate.size())) {
      least = distance;
      best = &candidate;
    }
  }
  return best == nullptr ? "" : *best;
}

std::string DidYouMean(std::string_view name, std::span<const std::string> candidates) {
  std::string nearest = NearestName(name, candidates);
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

}  // namespace mnemon
