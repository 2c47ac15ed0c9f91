// SPDX-License-Identifier: MIT
// What decoders never ask of a runner: padding among the rows.
#include <random>

#include "gtest/gtest.h"
#include "model/compute/thread_pool.h"
#include "model/families/families.h"
#include "model/operations/cpu_operations.h"
#include "model/program/cpu/cpu_runner.h"
#include "model/program/step/step_program.h"

namespace mnemon {
namespace {

class PaddingTest : public testing::TestWithParam<int> {
 protected:
  PaddingTest() : pool_(GetParam()) {
    std::minstd_rand random(3);
    std::uniform_real_distribution<float> number(-0.3f, 0.3f);
    for (const TensorShape& tensor : TensorsOf(model_)) {
      int64_t count = 1;
      for (const int64_t size : tensor.shape) count *= size;
      std::vector<float>& floats = floats_.emplace_back(static_cast<size_t>(count));
      for (float& f : floats) f = number(random);
      views_.push_back(
          {.name = tensor.name, .shape = tensor.shape, .data = floats.data()});
    }
    const DescribedState state = StateOf(model_);
    const StepOptions options{.operations = FindCpuOperations("").value(),
                              .pool = &pool_};
    weights_ = std::make_unique<StepWeights>(views_, options);
    program_ = MakeStepProgram(model_, state, *weights_);
    weights_->Pack();
    runner_ = MakeCpuRunner(program_, *options.operations, pool_);
    arena_ = StateArena::Create(state.spec, {.slots = 40}).value();
  }

  // Each session's tokens, with runs of padding of so many rows in front of each.
  std::vector<float> Logits(int sessions, int64_t padding) {
    StepBatch batch;
    const auto add = [&](int32_t slot, int64_t count) {
      batch.runs.push_back({.slot = slot, .first = batch.rows(), .count = count});
      for (int64_t i = 0; i < count; ++i) {
        batch.tokens.push_back(static_cast<int32_t>((batch.runs.size() + i) %
                                                    static_cast<size_t>(model_.vocab)));
      }
    };
    std::vector<int32_t> slots;
    for (int s = 0; s < sessions; ++s) {
      if (padding > 0) add(-1, padding);
      slots.push_back(arena_->Acquire().value());
      EXPECT_TRUE(arena_->Reserve(slots.back(), 1 + s % 2).ok());
      add(slots.back(), 1 + s % 2);
      for (int64_t i = 0; i < 1 + s % 2; ++i) {
        const auto row = static_cast<int32_t>(batch.rows() - 1 - s % 2 + i);
        batch.tokens[static_cast<size_t>(row)] = s % 3;
        batch.wanted.push_back(row);
      }
    }
    std::vector<float> logits(batch.wanted.size() * model_.vocab);
    runner_->MakeRoom(batch.rows(), 4, *arena_);
    runner_->Submit(batch, *arena_, logits.data());
    EXPECT_TRUE(*runner_->Complete({}));
    for (const int32_t slot : slots) arena_->Release(slot);
    return logits;
  }

  ThreadPool pool_;
  const ModelDescription model_ =
      *DescribeModel((*FindFamily("causal"))->variants()[0]);
  std::vector<std::vector<float>> floats_;
  TensorViews views_;
  std::unique_ptr<StepWeights> weights_;
  StepProgram program_;
  std::unique_ptr<StepRunner> runner_;
  std::unique_ptr<StateArena> arena_;
};

TEST_P(PaddingTest, ChangesNothing) {
  for (const int sessions : {1, 2, 20, 36}) {
    const std::vector<float> logits = Logits(sessions, 0);
    EXPECT_EQ(Logits(sessions, 1), logits) << sessions;
    EXPECT_EQ(Logits(sessions, 3), logits) << sessions;
  }
}

TEST_P(PaddingTest, ABatchOfNothingElseIsComputed) {
  StepBatch batch;
  batch.runs.push_back({.slot = -1, .first = 0, .count = 2});
  batch.tokens = {0, 0};
  runner_->MakeRoom(2, 1, *arena_);
  runner_->Submit(batch, *arena_, nullptr);
  EXPECT_TRUE(*runner_->Complete({}));
}

INSTANTIATE_TEST_SUITE_P(Workers, PaddingTest, testing::Values(1, 2, 3));

}  // namespace
}  // namespace mnemon
