// SPDX-License-Identifier: MIT
// Norm with an activation, and scores that become attention weights.
#include <cmath>

#include "tests/model/compute/targets.h"

namespace mnemon {
namespace {

using SoftmaxTest = TargetTest;

void ExpectNear(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 2e-6f) << i;
  }
}

TEST_P(SoftmaxTest, NormAndActivation) {
  for (const int64_t width : {1, 15, 16, 37}) {
    const std::vector<float> in = Drawn(3 * width, 1), gain = Drawn(width, 2),
                             bias = Drawn(width, 3);
    for (const Act act : {Act::kNone, Act::kRelu, Act::kGelu}) {
      const auto run = [&](const CpuOperations& operations, int workers) {
        std::vector<float> rows = in;  // in place
        for (int w = 0; w < workers; ++w) {
          operations.norm({.rows = 3,
                           .width = width,
                           .in = {rows.data(), width},
                           .norm = {gain.data(), bias.data()},
                           .act = act,
                           .out = {rows.data(), width}},
                          {w, workers});
        }
        return rows;
      };
      const std::vector<float> found = run(target(), 1);
      EXPECT_EQ(found, run(target(), 2));
      ExpectNear(found, run(reference(), 1));
    }
  }
}

TEST_P(SoftmaxTest, MasksSlopesAndEmptyRows) {
  constexpr int64_t kRows = 4, kQuery = 2;
  for (const int64_t keys : {1, 6, 16, 33}) {
    const std::vector<float> scores = Drawn(kRows * keys, 1);
    std::vector<uint8_t> mask(kRows * keys);
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % 3 != 0;
    std::fill_n(mask.begin() + keys, keys, 0);  // row 1 sees nothing
    for (const bool causal : {false, true}) {
      for (const bool masked : {false, true}) {
        for (const float slope : {0.0f, 0.25f}) {
          const auto run = [&](const CpuOperations& operations, int workers) {
            std::vector<float> rows = scores;
            for (int w = 0; w < workers; ++w) {
              operations.softmax({.rows = kRows,
                                  .keys = keys,
                                  .query = kQuery,
                                  .scale = 0.7f,
                                  .slope = slope,
                                  .causal = causal,
                                  .mask = masked ? mask.data() : nullptr,
                                  .scores = {rows.data(), keys}},
                                 {w, workers});
            }
            return rows;
          };
          const std::vector<float> found = run(target(), 1);
          EXPECT_EQ(found, run(target(), 2));
          ExpectNear(found, run(reference(), 1));
          for (int64_t r = 0; r < kRows; ++r) {
            double total = 0, expected = 0;
            for (int64_t j = 0; j < keys; ++j) {
              const bool sees =
                  (!causal || j <= kQuery + r) && (!masked || mask[r * keys + j] != 0);
              if (sees) {
                expected = 1;
              } else {
                EXPECT_EQ(found[r * keys + j], 0.0f);
              }
              total += found[r * keys + j];
            }
            EXPECT_NEAR(total, expected, 1e-6);
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SoftmaxTest, testing::ValuesIn(TargetsUnderTest()),
                         TargetName);

}  // namespace
}  // namespace mnemon
