// SPDX-License-Identifier: MIT
#include "model/sampling/prefix_cut.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

namespace mnemon {
namespace {

// Fewer are sorted directly.
constexpr size_t kFew = 256;

// Bits of a digit of a key; the most significant digit comes first.
constexpr int kDigitBits = 11;
constexpr int kShifts[] = {21, 10, 0};
constexpr uint32_t kDigitMask = (uint32_t{1} << kDigitBits) - 1;

// Ascends as the score falls; -0 equals 0.
uint32_t Key(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);
  return bits >> 31 ? bits : bits ^ 0x7FFFFFFFu;
}

// Weights by the digits of their keys.
class Histogram {
 public:
  void Add(uint32_t digit, uint64_t weight) { sums_[digit] += weight; }
  // The first digit with which `before` and the weights up to it reach `target`; adds
  // the weights of lower digits to `before`.
  uint32_t Cross(uint64_t target, uint64_t& before) const {
    uint32_t digit = 0;
    while (digit < kDigitMask && before + sums_[digit] < target)
      before += sums_[digit++];
    return digit;
  }

 private:
  std::array<uint64_t, kDigitMask + 1> sums_ = {};
};

// Moves those of `count` positions at(0), at(1), .. into `left` with whose digit the
// weights reach `target`; adds the weights of earlier digits to `before`. `at` may read
// `left`.
template <class At>
void Narrow(std::span<const float> scores, std::span<const uint64_t> weights, int shift,
            uint64_t target, size_t count, const At& at, uint64_t& before,
            Positions& left) {
  const auto digit = [&](size_t position) {
    return Key(scores[position]) >> shift & kDigitMask;
  };
  Histogram histogram;
  for (size_t i = 0; i < count; ++i) histogram.Add(digit(at(i)), weights[at(i)]);
  const uint32_t last = histogram.Cross(target, before);
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t position = at(i);
    left[kept] = static_cast<int32_t>(position);
    kept += digit(position) == last;
  }
  left.resize(kept);
}

}  // namespace

PrefixEnd FindPrefixByWeight(std::span<const float> scores,
                             std::span<const uint64_t> weights, uint64_t target,
                             Positions& spare) {
  target = std::max<uint64_t>(target, 1);
  uint64_t before = 0;
  Positions& left = spare;
  left.resize(scores.size());
  if (scores.size() <= kFew) {
    std::iota(left.begin(), left.end(), 0);
  } else {
    const auto all = [](size_t i) { return i; };
    Narrow(scores, weights, kShifts[0], target, scores.size(), all, before, left);
  }
  const auto those = [&](size_t i) { return static_cast<size_t>(left[i]); };
  for (const int shift : {kShifts[1], kShifts[2]}) {
    if (left.size() <= kFew) break;
    Narrow(scores, weights, shift, target, left.size(), those, before, left);
  }
  // More than a few have equal scores, and are already in order.
  if (left.size() <= kFew) std::sort(left.begin(), left.end(), ByScore{scores});
  for (const int32_t position : left) {
    before += weights[position];
    if (before >= target) return {scores[position], position};
  }
  return {scores[left.back()], left.back()};
}

PrefixEnd FindPrefixByCount(const SamplingOperations& operations,
                            std::span<const float> scores, size_t count,
                            Positions& spare) {
  // The best `count` so far, and up to as many newer ones and a block; scores that do
  // not exceed the last of the best are skipped.
  const auto size = static_cast<int64_t>(scores.size());
  spare.resize(std::min(2 * count + kSamplingBlock, scores.size()) + kWriteSlack);
  const auto first = spare.begin();
  const auto last = first + static_cast<ptrdiff_t>(count) - 1;
  int64_t held = 0;
  float least = -INFINITY;
  const auto shrink = [&] {
    std::nth_element(first, last, first + held, ByScore{scores});
    held = static_cast<int64_t>(count);
    least = std::nextafter(scores[*last], INFINITY);
  };
  for (int64_t begin = 0; begin < size; begin += kSamplingBlock) {
    held +=
        operations.find(scores.data() + begin, std::min(kSamplingBlock, size - begin),
                        least, static_cast<int32_t>(begin), spare.data() + held);
    if (held >= 2 * static_cast<int64_t>(count)) shrink();
  }
  if (held > static_cast<int64_t>(count)) shrink();
  const int32_t end = *std::max_element(first, last + 1, ByScore{scores});
  return {scores[end], end};
}

void ListPrefix(const SamplingOperations& operations, std::span<const float> scores,
                PrefixEnd end, Positions& positions) {
  positions.resize(scores.size() + static_cast<size_t>(kWriteSlack));
  const int64_t found =
      operations.find(scores.data(), static_cast<int64_t>(scores.size()), end.score, 0,
                      positions.data());
  size_t count = 0;
  for (int64_t i = 0; i < found; ++i) {
    const int32_t position = positions[static_cast<size_t>(i)];
    positions[count] = position;
    count += position <= end.position || scores[position] > end.score;
  }
  positions.resize(count);
}

}  // namespace mnemon
