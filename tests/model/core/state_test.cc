// SPDX-License-Identifier: MIT
#include "model/state/state.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

StateEntry Fixed(std::vector<int64_t> shape) {
  return {.name = "fixed", .shape = std::move(shape)};
}
StateEntry Growing(Growth growth, int64_t width, int64_t capacity) {
  return {.name = "rows", .shape = {width}, .growth = growth, .capacity = capacity};
}

TEST(StateSpec, Sizes) {
  const StateSpec spec{{Fixed({2, 3}), Growing(Growth::kAppend, 5, 100),
                        Growing(Growth::kAppend, 7, 100), Fixed({4})}};
  ASSERT_TRUE(spec.Validate().ok());
  EXPECT_TRUE(spec.growing());
  EXPECT_EQ(spec.growth(), Growth::kAppend);
  EXPECT_EQ(spec.capacity(), 100);
  EXPECT_EQ(spec.fixed_elements(), 10);
  EXPECT_EQ(spec.row_elements(), 12);
  EXPECT_EQ(spec.max_positions(), 100);
  EXPECT_EQ(spec.bytes_at(0), 40);
  EXPECT_EQ(spec.bytes_at(1), 40 + 16 * 48);
  EXPECT_EQ(spec.bytes_at(16), 40 + 16 * 48);
  EXPECT_EQ(spec.bytes_at(17), 40 + 32 * 48);
  EXPECT_EQ(spec.bytes_at(100), 40 + 112 * 48);
  EXPECT_EQ(spec.bytes_at(StateSpec::kUnlimited), spec.bytes_at(100));
}

TEST(StateSpec, EntriesOfAKindFollowEachOther) {
  const StateSpec spec{{Fixed({2, 3}), Growing(Growth::kAppend, 5, 100),
                        Growing(Growth::kAppend, 7, 100), Fixed({4}),
                        Growing(Growth::kAppend, 1, 100)}};
  std::vector<int64_t> offsets;
  for (size_t e = 0; e < spec.entries.size(); ++e) offsets.push_back(spec.offset(e));
  EXPECT_THAT(offsets, ElementsAre(0, 0, 5 * 16, 6, 12 * 16));
}

TEST(StateSpec, FixedAndRingHaveNoLimit) {
  const StateSpec fixed{{Fixed({3})}};
  EXPECT_FALSE(fixed.growing());
  EXPECT_EQ(fixed.max_positions(), StateSpec::kUnlimited);
  EXPECT_EQ(fixed.bytes_at(StateSpec::kUnlimited), 12);
  const StateSpec ring{{Growing(Growth::kRing, 1, 20)}};
  EXPECT_EQ(ring.max_positions(), StateSpec::kUnlimited);
  // 20 rows can lie in three blocks.
  EXPECT_EQ(ring.bytes_at(StateSpec::kUnlimited), 3 * 16 * 4);
  EXPECT_EQ(StateSpec{}.bytes_at(5), 0);
  EXPECT_TRUE(StateSpec{}.Validate().ok());
}

TEST(StateSpec, RefusesWhatCannotBe) {
  const int64_t big = int64_t{1} << 31;
  const std::vector<StateSpec> bad = {
      {{Fixed({0})}},
      {{Fixed({-1})}},
      {{Fixed({big, big})}},
      {{Fixed({INT64_MAX})}},
      {{Fixed({INT64_MAX, INT64_MAX, INT64_MAX})}},
      {{Fixed({big, 1024}), Fixed({big, 1024}), Fixed({1})}},
      {{Growing(Growth::kAppend, 5, 0)}},
      {{Growing(Growth::kRing, 5, -3)}},
      {{Growing(Growth::kAppend, big, big)}},
      {{Growing(Growth::kAppend, 5, 10), Growing(Growth::kAppend, 5, 11)}},
      {{Growing(Growth::kAppend, 5, 10), Growing(Growth::kRing, 5, 10)}},
      {{{.name = "x", .shape = {1}, .growth = Growth::kFixed, .capacity = 3}}},
  };
  for (size_t i = 0; i < bad.size(); ++i) {
    const absl::Status status = bad[i].Validate();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << i;
    EXPECT_THAT(std::string(status.message()), HasSubstr("state "));
  }
}

TEST(StateSpec, TheHashTellsSpecsApart) {
  const StateEntry base = Growing(Growth::kAppend, 5, 10);
  std::vector<StateSpec> specs = {{}, {{base}}, {{base, base}}, {{Fixed({5})}}};
  for (int change = 0; change < 6; ++change) {
    StateEntry e = base;
    if (change == 0) e.name = "row";
    if (change == 1) e.shape = {5, 1};
    if (change == 2) e.shape = {6};
    if (change == 3) e.fill = 1;
    if (change == 4) e.growth = Growth::kRing;
    if (change == 5) e.capacity = 11;
    specs.push_back({{e}});
  }
  std::set<std::string> hashes;
  for (const StateSpec& spec : specs) hashes.insert(spec.Hash());
  EXPECT_EQ(hashes.size(), specs.size());
  EXPECT_EQ(specs[1].Hash(), StateSpec{{base}}.Hash());
}

}  // namespace
}  // namespace mnemon
