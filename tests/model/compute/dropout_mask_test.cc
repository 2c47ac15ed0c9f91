// SPDX-License-Identifier: MIT
#include "model/compute/dropout_mask.h"

#include <vector>

#include "gtest/gtest.h"
#include "model/compute/each_target.h"
#include "model/sampling/philox.h"

namespace mnemon {
namespace {

constexpr MaskPlace kPlace = {
    .layer = 3, .kind = DropoutKind::kHidden, .head = 5, .row = 70000, .position = 12};
constexpr uint64_t kKey = 0x0123456789ABCDEF;

// As the header says it.
bool Dropped(const MaskPlace& place, uint64_t key, int64_t element,
             uint32_t threshold) {
  const int64_t within = element % 128;
  const auto block = static_cast<uint32_t>(element / 128 * 16 + within % 16);
  const auto words =
      Philox4x32({block, static_cast<uint32_t>(place.position),
                  static_cast<uint32_t>(place.row), DropoutMask::Site(place)},
                 {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
  const int64_t half = within / 16;
  const uint32_t bits = words[half / 2] >> (16 * (half % 2)) & 0xFFFF;
  return bits < threshold;
}

TEST(DropoutMask, IsPhiloxOfItsPlaceOnEveryTarget) {
  ForEachTarget([] {
    for (const double p : {0.0, 0.1, 0.5, 0.999999}) {
      const DropoutMask mask(p, kKey);
      EXPECT_NEAR(mask.kept() * (1 - mask.threshold() / 65536.0), 1, 1e-6);
      for (const size_t width : {1, 16, 127, 128, 129, 1000}) {
        std::vector<float> found(width + 1, 7.0f);
        mask.Fill(kPlace, {found.data(), width});
        for (size_t i = 0; i < width; ++i) {
          const bool dropped =
              Dropped(kPlace, kKey, static_cast<int64_t>(i), mask.threshold());
          ASSERT_EQ(found[i], dropped ? 0.0f : mask.kept()) << p << " " << i;
        }
        EXPECT_EQ(found[width], 7.0f);
      }
    }
  });
}

TEST(DropoutMask, DropsTheShareThatWasAskedFor) {
  for (const double p : {0.1, 0.25, 0.9}) {
    const DropoutMask mask(p, kKey);
    std::vector<float> all(1 << 18);
    mask.Fill(kPlace, all);
    double dropped = 0;
    for (const float one : all) dropped += one == 0.0f ? 1 : 0;
    // Four standard deviations.
    EXPECT_NEAR(dropped / static_cast<double>(all.size()), p, 0.004);
  }
}

TEST(DropoutMask, SitesDiffer) {
  MaskPlace other = kPlace;
  other.layer = 4;
  EXPECT_NE(DropoutMask::Site(other), DropoutMask::Site(kPlace));
  other = kPlace;
  other.kind = DropoutKind::kHead;
  EXPECT_NE(DropoutMask::Site(other), DropoutMask::Site(kPlace));
  other = kPlace;
  other.head = 6;
  EXPECT_NE(DropoutMask::Site(other), DropoutMask::Site(kPlace));
}

}  // namespace
}  // namespace mnemon
