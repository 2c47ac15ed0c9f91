// SPDX-License-Identifier: MIT
// Reductions by all threads of a block over a list of integers: the minimum, and the
// place where a running sum passes a target. The list is cut into one part per warp, so
// that its order is kept and neighbours are read together. All threads of a block call
// them; `of_warps` is shared memory, one number per warp. C++17.
#pragma once

#include <cstdint>

#include "model/compute/cuda/device.h"

namespace mnemon::device {

struct Range {
  int32_t begin = 0;
  int32_t end = 0;
};

// The part of warp `index`: whole multiples of kWarp numbers.
MNEMON_DEVICE Range WarpPart(Range whole, int index) {
  const int32_t threads = ThreadCount();
  const int32_t size =
      (whole.end - whole.begin + threads - 1) / threads * kWarp;  // of each part
  return {Smaller(whole.begin + index * size, whole.end),
          Smaller(whole.begin + (index + 1) * size, whole.end)};
}

// Calls use(inside, load(i)) for each i of a range; called by a warp, whose lanes
// synchronise in `use`; if `inside` is false, the number is outside of the range.
// Several are loaded at once, so that loads overlap.
template <class Load, class Use>
MNEMON_DEVICE void Each(Range range, const Load& load, const Use& use) {
  constexpr int kAtOnce = 4;
  for (int32_t first = range.begin; first < range.end; first += kAtOnce * kWarp) {
    decltype(load(0)) loaded[kAtOnce];
    MNEMON_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      loaded[k] = load(Smaller(first + k * kWarp + Lane(), range.end - 1));
    }
    MNEMON_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      use(first + k * kWarp + Lane() < range.end, loaded[k]);
    }
  }
}

struct Sum {
  MNEMON_DEVICE uint64_t operator()(uint64_t a, uint64_t b) const { return a + b; }
};
struct Least {
  MNEMON_DEVICE uint64_t operator()(uint64_t a, uint64_t b) const {
    return Smaller(a, b);
  }
};
struct Most {
  MNEMON_DEVICE uint64_t operator()(uint64_t a, uint64_t b) const {
    return a > b ? a : b;
  }
};

// Folds the numbers of a warp; every lane gets the result.
template <class Fold>
MNEMON_DEVICE uint64_t WarpFold(uint64_t number, const Fold& fold) {
  for (int apart = kWarp / 2; apart > 0; apart /= 2) {
    number = fold(number, Shuffle(number, Lane() ^ apart));
  }
  return number;
}

// The same for a block, for every thread. `none` is the neutral element.
template <class Fold>
MNEMON_DEVICE uint64_t BlockFold(uint64_t number, uint64_t none, const Fold& fold,
                                 uint64_t* of_warps) {
  number = WarpFold(number, fold);
  if (Lane() == 0) of_warps[WarpIndex()] = number;
  Barrier();
  number = WarpFold(Lane() < WarpCount() ? of_warps[Lane()] : none, fold);
  Barrier();
  return number;
}

// Sum over the lanes up to this one.
MNEMON_DEVICE uint64_t WarpRunningSum(uint64_t value) {
  for (int apart = 1; apart < kWarp; apart *= 2) {
    const uint64_t before = Shuffle(value, Lane() - apart);
    if (Lane() >= apart) value += before;
  }
  return value;
}

// The place where a running sum first exceeds a target.
struct Passed {
  int32_t index = 0;
  uint64_t rest = 0;  // of the target, without what comes before
};

// For 32 numbers, one per lane; the index is 32 if they do not exceed the target.
MNEMON_DEVICE Passed WarpPass(uint64_t number, uint64_t target) {
  const uint64_t sum = WarpRunningSum(number);
  const int index = CountBits(Ballot(sum <= target));
  const uint64_t before = Shuffle(sum, index - 1);  // of the last lane, if index is 0
  return {index, index == 0 ? target : target - before};
}

// For weigh(load(i)), i < count. The target is want(sum of all). REQUIRES: it is below
// the sum.
template <class Load, class Weigh, class Want>
MNEMON_DEVICE Passed Pass(int32_t count, const Load& load, const Weigh& weigh,
                          const Want& want, uint64_t* of_warps) {
  constexpr int32_t kFew = 2 * kWarp;
  Range range{0, count};
  uint64_t target = 0;
  for (bool first = true; first || (WarpCount() > 1 && range.end - range.begin > kFew);
       first = false) {
    uint64_t sum = 0;
    Each(WarpPart(range, WarpIndex()), load,
         [&](bool inside, const decltype(load(0))& loaded) {
           if (inside) sum += weigh(loaded);
         });
    sum = WarpFold(sum, Sum());
    if (Lane() == 0) of_warps[WarpIndex()] = sum;
    Barrier();
    sum = Lane() < WarpCount() ? of_warps[Lane()] : 0;
    if (first) target = want(WarpFold(sum, Sum()));
    const Passed part = WarpPass(sum, target);
    range = WarpPart(range, part.index);
    target = part.rest;
    Barrier();
  }
  // Each warp by itself.
  for (;; range.begin += kWarp) {
    const int32_t i = range.begin + Lane();
    const Passed here = WarpPass(i < range.end ? weigh(load(i)) : 0, target);
    // Bounded in any case: a hanging device would stop the server.
    if (here.index < kWarp || range.begin + kWarp >= range.end)
      return {Smaller(range.begin + here.index, range.end - 1), here.rest};
    target = here.rest;
  }
}

}  // namespace mnemon::device
