// SPDX-License-Identifier: MIT
#include "model/sampling/key_sort.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(SortByKey, SortsAnyNumbersAndKeepsEqualOnesByIds) {
  std::mt19937_64 random(4);
  const std::vector<double> special = {0.0,
                                       -0.0,
                                       INFINITY,
                                       -INFINITY,
                                       5e-324,
                                       -5e-324,
                                       std::numeric_limits<double>::max(),
                                       std::numeric_limits<double>::lowest()};
  std::vector<KeyedId> spare;
  for (const int32_t size : {1, 2, 100, 511, 512, 3000}) {
    for (int kind = 0; kind < 4; ++kind) {
      std::vector<KeyedId> entries;
      for (int32_t id = 0; id < size; ++id) {
        const double number = std::normal_distribution<double>()(random);
        const double key = kind == 0   ? special[random() % special.size()]
                           : kind == 1 ? static_cast<float>(number)
                           : kind == 2 ? std::ldexp(number, random() % 600)
                                       : 1.0;
        entries.push_back({.key = key, .id = id});
      }
      std::vector<KeyedId> expected = entries;
      std::stable_sort(
          expected.begin(), expected.end(),
          [](const KeyedId& a, const KeyedId& b) { return a.key < b.key; });
      SortByKey(entries, spare);
      for (int32_t i = 0; i < size; ++i) {
        ASSERT_EQ(entries[i].key, expected[i].key);
        ASSERT_EQ(entries[i].id, expected[i].id);
      }
    }
  }
}

}  // namespace
}  // namespace mnemon
