// SPDX-License-Identifier: MIT
#include "model/sampling/philox.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::ElementsAre;

// The known answers of Random123's kat_vectors, "philox4x32 10".
TEST(Philox, KnownAnswers) {
  EXPECT_THAT(Philox4x32({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  const uint32_t ones = 0xffffffff;
  EXPECT_THAT(Philox4x32({ones, ones, ones, ones}, {ones, ones}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                         {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(RandomAt, IsTheDocumentedFunction) {
  EXPECT_EQ(RandomAt(0, 0), 0xe169c58d6627e8d5u);
  const auto words =
      Philox4x32({0x9abcdef0, 0x12345678, 0, 0}, {0x76543210, 0xfedcba98});
  EXPECT_EQ(RandomAt(0xfedcba9876543210, 0x123456789abcdef0),
            words[0] + (uint64_t{words[1]} << 32));
}

TEST(RandomAt, Spreads) {
  std::set<uint64_t> seen;
  double sum = 0;
  for (uint64_t i = 0; i < 10000; ++i) {
    const uint64_t bits = RandomAt(UINT64_MAX, i);
    seen.insert(bits);
    sum += static_cast<double>(bits) * 0x1p-64;
  }
  EXPECT_EQ(seen.size(), 10000u);
  EXPECT_NEAR(sum / 10000, 0.5, 0.015);
  // High words of seed and index matter.
  EXPECT_NE(RandomAt(1, 0), RandomAt(1ull << 32, 0));
  EXPECT_NE(RandomAt(0, 1), RandomAt(0, 1ull << 32));
}

}  // namespace
}  // namespace mnemon
