// SPDX-License-Identifier: MIT
#include "base/partition.h"

#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(PartOf, CoversEverythingOnceAndNeverLeavesTheFirstEmpty) {
  for (int64_t count : {0, 1, 2, 7, 64}) {
    for (int parts : {1, 2, 3, 16}) {
      int64_t next = 0;
      for (int part = 0; part < parts; ++part) {
        Part range = PartOf(count, part, parts);
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.size(), (count + parts - 1) / parts);
        next = range.end;
      }
      EXPECT_EQ(next, count);
      EXPECT_EQ(PartOf(count, 0, parts).size() > 0, count > 0);
    }
  }
}

}  // namespace
}  // namespace mnemon
