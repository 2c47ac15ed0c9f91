// SPDX-License-Identifier: MIT
// What a session reads is its own: with canaries in every row and block that it has not
// written, after its last token and in memory freed by others, every schedule of steps,
// forks, cuts and ends gives the same bits.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/compute/step_options.h"
#include "model/compute/thread_pool.h"
#include "model/families/families.h"
#include "model/operations/cpu_operations.h"
#include "model/state/block_recycler.h"
#include "model/state/host_memory.h"
#include "tests/fakes/canary_memory.h"
#include "tests/model/decoder/drawn_weights.h"
#include "tests/model/decoder/random_schedule.h"

namespace mnemon {
namespace {

struct Case {
  ModelConfig config;
  ModelDescription model;
  int variant;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Family& entry : Families()) {
    if (!entry.autoregressive()) continue;
    int variant = 0;
    for (const ModelConfig& config : entry.variants()) {
      cases.push_back({config, entry.describe(config), variant++});
    }
  }
  return cases;
}

class CanaryTest : public testing::TestWithParam<Case> {};

// What ends a step's wait for its threads takes long on a busy machine, so that only
// one form runs with several.
void RunSchedule(const Case& one, const CpuOperations& operations, WeightFormat format,
                 int threads) {
  SCOPED_TRACE(testing::Message() << operations.target << " " << NameOf(format) << ", "
                                  << threads << " threads");
  const DrawnWeights weights(one.model);
  ThreadPool pool(threads);
  const StepOptions options{.format = format, .operations = &operations, .pool = &pool};
  BlockRecycler recycler;
  World plain(one.model, weights.views, options);
  World canaries(one.model, weights.views, options);
  // Freed memory stays until it is taken, or is cleaned concurrently.
  const bool recycles = format != WeightFormat::kBf16;
  canaries.MakeArena(std::make_shared<CanaryMemory>(MakeHostMemory()),
                     recycles ? &recycler : nullptr);
  RandomSchedule(plain, canaries, 11 + static_cast<uint64_t>(format)).Run(40);
  canaries.arena.reset();
}

TEST_P(CanaryTest, NoSessionsBitsChange) {
  for (const CpuOperations& operations : AllCpuOperations()) {
    for (const WeightFormat format :
         {WeightFormat::kFp32, WeightFormat::kBf16, WeightFormat::kInt8}) {
      RunSchedule(GetParam(), operations, format, 1);
      if (HasFailure()) return;
    }
  }
  RunSchedule(GetParam(), AllCpuOperations().front(), WeightFormat::kFp32, 2);
}

INSTANTIATE_TEST_SUITE_P(Decoders, CanaryTest, testing::ValuesIn(Cases()),
                         [](const auto& info) {
                           return info.param.config.architecture + "_" +
                                  std::to_string(info.param.variant);
                         });

// There are canaries where a session has not written.
TEST(CanaryMemory, HasThemInFreshRowsAndInThoseGivenBack) {
  const auto arena = *StateArena::Create(
      {{{.name = "rows", .shape = {4}, .growth = Growth::kAppend, .capacity = 64}}},
      {.slots = 1, .memory = std::make_shared<CanaryMemory>(MakeHostMemory())});
  for (int round = 0; round < 2; ++round) {
    const int32_t slot = *arena->Acquire();
    ASSERT_TRUE(arena->Reserve(slot, 40).ok());
    for (int64_t row = 0; row < 40; ++row) {
      float* const floats = arena->Row(slot, 0, row);
      for (int i = 0; i < 4; ++i) EXPECT_FALSE(std::fabs(floats[i]) < 1.0e29f);
      std::fill_n(floats, 4, 1.0f);
    }
    arena->Advance(slot, 40);
    arena->Release(slot);
  }
}

}  // namespace
}  // namespace mnemon
