// SPDX-License-Identifier: MIT
#include "base/memory/slabs.h"

#include <cstdint>
#include <limits>
#include <new>
#include <vector>

#include "base/memory/aligned_floats.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

bool OnALine(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory) % 64 == 0;
}

TEST(Slabs, PiecesAreZeroOnLinesAndApart) {
  Slabs slabs;
  std::vector<std::pair<char*, int64_t>> pieces;
  int64_t expected = 0;
  // Many in one slab, some that end one, and one that is larger than any.
  for (const int64_t bytes : {1, 64, 65, 1 << 20, 20 << 20, 20 << 20, 40 << 20, 3}) {
    char* piece = static_cast<char*>(slabs.Take(bytes));
    ASSERT_TRUE(OnALine(piece));
    for (int64_t i = 0; i < bytes; i += 61) ASSERT_EQ(piece[i], 0);
    ASSERT_EQ(piece[bytes - 1], 0);
    for (const auto& [other, size] : pieces) {
      ASSERT_TRUE(piece + bytes <= other || other + size <= piece);
    }
    std::fill_n(piece, bytes, char{7});
    pieces.emplace_back(piece, bytes);
    expected += (bytes + 63) / 64 * 64;
    EXPECT_EQ(slabs.bytes(), expected);
  }
  for (const auto& [piece, bytes] : pieces) {
    EXPECT_EQ(piece[0], 7);
    EXPECT_EQ(piece[bytes - 1], 7);
  }
}

TEST(Slabs, MoreThanThereIsThrowsAndHarmsNothing) {
  Slabs slabs;
  float* const kept = slabs.TakeFloats(10);
  kept[9] = 3;
  for (const int64_t bytes :
       {std::numeric_limits<int64_t>::max(), int64_t{1} << 60, int64_t{1} << 50}) {
    EXPECT_THROW(slabs.Take(bytes), std::bad_alloc);
  }
  EXPECT_EQ(slabs.bytes(), 64);
  EXPECT_EQ(kept[9], 3);
  EXPECT_TRUE(OnALine(slabs.TakeFloats(1)));
}

TEST(AlignedFloats, BeginOnALine) {
  for (const size_t count : {1, 3, 1000}) {
    EXPECT_TRUE(OnALine(AlignedFloats(count).data()));
  }
}

}  // namespace
}  // namespace mnemon
