// SPDX-License-Identifier: MIT
// The data of the reverse task, and an encoder that learns it.
#include "train/reverse_task.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/sequence/runtime.h"
#include "train/learner.h"

namespace mnemon {
namespace {

using Sequence = std::vector<int64_t>;

DataOptions Options() {
  return {.task = TaskKind::kReverse,
          .seq_len = 5,
          .batch = 4,
          .classes = 6,
          .training_sequences = 30,
          .validation_sequences = 10,
          .test_sequences = 9};
}

std::unique_ptr<Loader> Make(LoaderUse use, const DataOptions& options = Options(),
                             uint64_t seed = 3) {
  return *MakeReverseTask(options)->MakeLoader(options, use, seed);
}

std::vector<Sequence> Inputs(Loader& loader, int64_t pass) {
  std::vector<Sequence> all;
  for (int64_t i = 0; i < loader.batches_per_pass(); ++i) {
    const Batch batch = loader.Get(pass, i);
    for (int64_t row = 0; row < batch.rows; ++row) {
      const auto begin = batch.inputs.begin() + row * batch.columns;
      all.emplace_back(begin, begin + batch.columns);
    }
  }
  return all;
}

TEST(ReverseTask, TargetsAreTheInputsBackwards) {
  for (const LoaderUse use :
       {LoaderUse::kTraining, LoaderUse::kValidation, LoaderUse::kTest}) {
    const Batch batch = Make(use)->Next();
    ASSERT_EQ(batch.rows, 4);
    ASSERT_EQ(batch.columns, 5);
    ASSERT_EQ(batch.inputs.size(), 20u);
    EXPECT_TRUE(batch.fresh);
    std::set<int64_t> digits;
    for (int64_t row = 0; row < 4; ++row) {
      for (int64_t t = 0; t < 5; ++t) {
        EXPECT_EQ(batch.targets[row * 5 + t], batch.inputs[row * 5 + 4 - t]);
        digits.insert(batch.inputs[row * 5 + t]);
      }
    }
    EXPECT_GE(*digits.begin(), 0);
    EXPECT_LT(*digits.rbegin(), 6);
    EXPECT_GT(digits.size(), 3u);
  }
}

TEST(ReverseTask, TrainingShufflesTheSameSequencesAndDropsThePartialBatch) {
  const auto loader = Make(LoaderUse::kTraining);
  EXPECT_EQ(loader->batches_per_pass(), 7);
  const std::vector<Sequence> first = Inputs(*loader, 0), second = Inputs(*loader, 1);
  EXPECT_EQ(first.size(), 28u);
  EXPECT_NE(first, second);
  const std::set<Sequence> a(first.begin(), first.end()),
      b(second.begin(), second.end());
  std::set<Sequence> all = a;
  all.insert(b.begin(), b.end());
  EXPECT_LE(all.size(), 30u);  // each pass leaves out two
  EXPECT_NE(Inputs(*Make(LoaderUse::kTraining, Options(), 4), 0), first);
}

TEST(ReverseTask, ValidationAndTestKeepEverySequenceInOrder) {
  const auto validation = Make(LoaderUse::kValidation), test = Make(LoaderUse::kTest);
  EXPECT_EQ(validation->batches_per_pass(), 3);
  EXPECT_EQ(validation->Get(0, 2).rows, 2);
  EXPECT_EQ(Inputs(*validation, 0), Inputs(*validation, 5));
  EXPECT_EQ(Inputs(*test, 0).size(), 9u);
  EXPECT_NE(Inputs(*test, 0)[0], Inputs(*validation, 0)[0]);
}

TEST(ReverseTask, HasNoText) {
  const auto task = MakeReverseTask(Options());
  EXPECT_EQ(task->vocab(), 6);
  EXPECT_EQ(task->tokenizer(), nullptr);
  EXPECT_EQ(task->sha256(), "");
  EXPECT_TRUE(task->Prompt("It is ")->empty());
  EXPECT_EQ(task->Describe(),
            "reverse: 30 training, 10 validation and 9 test sequences of 5 tokens of 6 "
            "kinds");
  DataOptions few = Options();
  few.training_sequences = 3;
  EXPECT_THAT(task->MakeLoader(few, LoaderUse::kTraining, 1).status().message(),
              testing::HasSubstr("fewer than the 4 of data.batch"));
}

// A miniature of train/configs/reverse.toml.
TEST(ReverseTask, AnEncoderLearnsIt) {
  InitTensorRuntime(1);
  WorkerPool pool(2);
  TrainConfig config;
  config.model = {.architecture = "encoder",
                  .d_model = 16,
                  .heads = 2,
                  .layers = 1,
                  .d_ff = 32,
                  .vocab = 4,
                  .positions = 16,
                  .position_kind = PositionKind::kLearned,
                  .norm_logits = true};
  config.data = Options();
  config.data.classes = 4;
  config.data.seq_len = 4;
  config.data.batch = 32;
  config.data.training_sequences = 256;
  config.data.validation_sequences = 50;
  config.data.test_sequences = 70;
  config.optimiser.kind = OptimiserKind::kAdam;
  const std::unique_ptr<Task> task = MakeReverseTask(config.data);
  const auto learner = *Learner::Create(config, *task, pool);
  EXPECT_LT(learner->Validate()->accuracy(), 0.6);
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(learner->Update(1e-2).ok());
  const Evaluation validation = *learner->Validate(), test = **learner->Test();
  EXPECT_EQ(validation.positions, 50 * 4);
  EXPECT_EQ(test.positions, 70 * 4);
  EXPECT_GE(test.accuracy(), 0.99);
  EXPECT_LT(test.loss(), 0.2);
  EXPECT_EQ(*learner->Sample(), "");
  CheckpointContent content;
  ASSERT_TRUE(learner->Save(content).ok());
  EXPECT_FALSE(content.contains("tokenizer.json"));
}

}  // namespace
}  // namespace mnemon
