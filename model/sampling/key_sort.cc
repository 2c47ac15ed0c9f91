// SPDX-License-Identifier: MIT
#include "model/sampling/key_sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <utility>

namespace mnemon {
namespace {

// Below, clearing the histograms costs more than comparisons.
constexpr size_t kFew = 512;

// Least significant digit first.
constexpr int kDigitBits = 11;
constexpr int kDigits = 6;
constexpr size_t kValues = size_t{1} << kDigitBits;

// Integers in the order of the keys.
uint64_t Rank(double key) {
  const uint64_t bits = std::bit_cast<uint64_t>(key + 0.0);  // -0 becomes 0
  const uint64_t sign = uint64_t{1} << 63;
  return bits & sign ? ~bits : bits | sign;
}

size_t Digit(uint64_t rank, int digit) {
  return (rank >> (digit * kDigitBits)) & (kValues - 1);
}

}  // namespace

void SortByKey(std::vector<KeyedId>& entries, std::vector<KeyedId>& spare) {
  if (entries.size() < kFew) {
    std::sort(entries.begin(), entries.end(), [](const KeyedId& a, const KeyedId& b) {
      return a.key != b.key ? a.key < b.key : a.id < b.id;
    });
    return;
  }
  std::array<std::array<uint32_t, kValues>, kDigits> starts = {};
  for (const KeyedId& entry : entries) {
    const uint64_t rank = Rank(entry.key);
    for (int d = 0; d < kDigits; ++d) ++starts[d][Digit(rank, d)];
  }
  spare.resize(entries.size());
  for (int d = 0; d < kDigits; ++d) {
    // Keys made of floats have digits that are 0 throughout.
    if (starts[d][Digit(Rank(entries[0].key), d)] == entries.size()) continue;
    uint32_t start = 0;
    for (uint32_t& value : starts[d]) start += std::exchange(value, start);
    for (const KeyedId& entry : entries) {
      spare[starts[d][Digit(Rank(entry.key), d)]++] = entry;
    }
    std::swap(entries, spare);
  }
}

}  // namespace mnemon
