// SPDX-License-Identifier: MIT
#include "train/draws.h"

#include <array>
#include <numeric>
#include <utility>

#include "model/sampling/philox.h"

namespace mnemon {

uint64_t DrawBits(uint64_t seed, uint32_t pass, DrawPurpose purpose, int64_t index) {
  const std::array<uint32_t, 4> word =
      Philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                  pass, static_cast<uint32_t>(purpose)},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return (uint64_t{word[1]} << 32) | word[0];
}

// The upper half of a 64-bit product; its bias is below n / 2^64.
int64_t UniformBelow(int64_t n, uint64_t seed, uint32_t pass, DrawPurpose purpose,
                     int64_t index) {
  const uint64_t bits = DrawBits(seed, pass, purpose, index);
  return static_cast<int64_t>(
      (static_cast<unsigned __int128>(bits) * static_cast<uint64_t>(n)) >> 64);
}

PassOrder::PassOrder(int64_t count, uint64_t seed) : seed_(seed), order_(count) {}

int64_t PassOrder::At(int64_t pass, int64_t place) {
  if (pass != ordered_for_) Shuffle(pass);
  return order_[place];
}

// Fisher and Yates, from sorted order.
void PassOrder::Shuffle(int64_t pass) {
  std::iota(order_.begin(), order_.end(), 0);
  for (int64_t i = size() - 1; i > 0; --i) {
    std::swap(order_[i], order_[UniformBelow(i + 1, seed_, static_cast<uint32_t>(pass),
                                             DrawPurpose::kOrder, i)]);
  }
  ordered_for_ = pass;
}

}  // namespace mnemon
