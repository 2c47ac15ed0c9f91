// SPDX-License-Identifier: MIT
// Images of states in every layout; arena_model_test has them beside other calls.
#include "model/state/state_image.h"

#include <memory>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "model/state/arena.h"
#include "tests/fakes/far_memory.h"

namespace mnemon {
namespace {

constexpr int64_t kImageBlock = 16;

StateSpec MixedSpec(Growth growth) {
  const auto growing = [growth](std::string name, std::vector<int64_t> shape,
                                BlockLayout layout) {
    return StateEntry{.name = std::move(name),
                      .shape = std::move(shape),
                      .growth = growth,
                      .capacity = growth == Growth::kRing ? 40 : 4096,
                      .layout = layout};
  };
  return {.entries = {growing("keys", {3, 2}, BlockLayout::kColumns),
                      {.name = "weights", .shape = {2, 5}},
                      growing("values", {3, 4}, BlockLayout::kHeadRows),
                      growing("memory", {7}, BlockLayout::kRows),
                      {.name = "sum", .shape = {3}, .fill = 1.0f}}};
}

class StateImageTest : public testing::TestWithParam<std::tuple<Growth, bool>> {
 protected:
  StateImageTest() : spec_(MixedSpec(std::get<0>(GetParam()))) {
    if (std::get<1>(GetParam())) far_ = std::make_shared<FarMemory>();
    arena_ = *StateArena::Create(spec_, {.slots = 2, .memory = far_});
  }

  // Different numbers in every place.
  std::vector<float> Numbers(int64_t computed) const {
    std::vector<float> image(static_cast<size_t>(StateImage::Floats(spec_, computed)));
    std::iota(image.begin(), image.end(), 1.0f);
    return image;
  }

  float At(const float* block, int64_t offset) {
    return far_ ? *far_->Near(block + offset, 1) : block[offset];
  }

  const StateSpec spec_;
  std::shared_ptr<FarMemory> far_;
  std::unique_ptr<StateArena> arena_;
};

TEST_P(StateImageTest, IsTheSameAfterAWrite) {
  for (const int64_t computed : {0, 1, 15, 16, 17, 39, 40, 41, 57, 300, 2111}) {
    const std::vector<float> image = Numbers(computed);
    SavedState state;
    ASSERT_TRUE(arena_->saved().MakeWhole(computed, state).ok());
    ASSERT_EQ(state.position(), computed);
    ASSERT_TRUE(StateImage::Write(spec_, arena_->memory(), image, state).ok());
    std::vector<float> read(image.size());
    ASSERT_TRUE(StateImage::Read(spec_, arena_->memory(), state, read).ok());
    EXPECT_EQ(read, image) << computed;
    arena_->saved().Drop(state);
  }
}

TEST_P(StateImageTest, NumbersLieWhereTheLayoutSays) {
  constexpr int64_t kComputed = 50;
  const std::vector<float> image = Numbers(kComputed);
  SavedState state;
  ASSERT_TRUE(arena_->saved().MakeWhole(kComputed, state).ok());
  ASSERT_TRUE(StateImage::Write(spec_, arena_->memory(), image, state).ok());
  const int32_t slot = *arena_->Acquire();
  arena_->saved().Attach(state, slot);
  const int64_t first = StateImage::FirstRow(spec_, kComputed);
  EXPECT_EQ(first, spec_.growth() == Growth::kRing ? 10 : 0);
  const BlockTable table = arena_->Table(slot);
  int64_t at = 0;
  for (size_t e = 0; e < spec_.entries.size(); ++e) {
    const StateEntry& entry = spec_.entries[e];
    const int64_t elements = entry.elements();
    if (entry.growth == Growth::kFixed) {
      for (int64_t i = 0; i < elements; ++i) {
        ASSERT_EQ(At(arena_->FixedEntries(slot).data(), spec_.offset(e) + i),
                  image[static_cast<size_t>(at + i)]);
      }
      at += elements;
      continue;
    }
    for (int64_t position = first; position < kComputed; ++position) {
      const int64_t row = position % kImageBlock;
      for (int64_t i = 0; i < elements; ++i) {
        int64_t within = row * elements + i;
        if (entry.layout == BlockLayout::kColumns) within = i * kImageBlock + row;
        if (entry.layout == BlockLayout::kHeadRows) {
          const int64_t head = i / 4, k = i % 4;
          within = (head * kImageBlock + row) * 4 + k;
        }
        ASSERT_EQ(At(table.block(position / kImageBlock), spec_.offset(e) + within),
                  image[static_cast<size_t>(at + (position - first) * elements + i)])
            << entry.name << " " << position << " " << i;
      }
    }
    at += (kComputed - first) * elements;
  }
  EXPECT_EQ(at, static_cast<int64_t>(image.size()));
  arena_->Release(slot);
}

TEST_P(StateImageTest, BlocksThatAreShortChangeNothing) {
  if (std::get<0>(GetParam()) == Growth::kRing) GTEST_SKIP() << "never short";
  const auto small = *StateArena::Create(spec_, {.slots = 2, .blocks = 3});
  SavedState state;
  const absl::Status status = small->saved().MakeWhole(3 * kImageBlock + 1, state);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(state.empty());
  EXPECT_EQ(small->slots_used(), 0);
  EXPECT_EQ(small->pools().blocks_used(), 0);
  EXPECT_TRUE(small->saved().MakeWhole(3 * kImageBlock, state).ok());
  EXPECT_EQ(small->slots_used(), 0);
  EXPECT_EQ(small->pools().blocks_used(), 3);
  small->saved().Drop(state);
  EXPECT_EQ(small->pools().blocks_used(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, StateImageTest,
    testing::Combine(testing::Values(Growth::kRing, Growth::kAppend), testing::Bool()),
    [](const auto& info) {
      return std::string(Name(std::get<0>(info.param))) +
             (std::get<1>(info.param) ? "_far" : "");
    });

}  // namespace
}  // namespace mnemon
