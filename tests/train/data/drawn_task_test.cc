// SPDX-License-Identifier: MIT
// The data of the drawn tasks, and models that learn them.
#include "train/data/drawn_task.h"

#include <algorithm>
#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/sequence/runtime.h"
#include "train/fit/learner.h"

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
  return *MakeDrawnTask(options)->MakeLoader(options, use, seed);
}

std::vector<Sequence> Inputs(Loader& loader, int64_t pass) {
  std::vector<Sequence> all;
  for (int64_t i = 0; i < loader.batches_per_pass(); ++i) {
    const Batch batch = loader.Get(pass, i).value();
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
    const Batch batch = Make(use)->Next().value();
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
  EXPECT_EQ(validation->Get(0, 2)->rows, 2);
  EXPECT_EQ(Inputs(*validation, 0), Inputs(*validation, 5));
  EXPECT_EQ(Inputs(*test, 0).size(), 9u);
  EXPECT_NE(Inputs(*test, 0)[0], Inputs(*validation, 0)[0]);
}

TEST(ReverseTask, HasNoText) {
  const auto task = MakeDrawnTask(Options());
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

// A miniature of train/configs/tasks/reverse.toml.
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
  const std::unique_ptr<Task> task = MakeDrawnTask(config.data);
  const auto alone = MakeSingleProcess();
  const auto learner = *Learner::Create(config, *task, pool, *alone);
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

TrainConfig Config(const std::string& task, const std::vector<std::string>& overrides) {
  return LoadTrainConfig(MNEMON_SOURCE_DIR "/train/configs/tasks/" + task + ".toml",
                         overrides)
      .value();
}

// Every sequence of a pass of a committed configuration, in a small form.
TEST(DrawnTask, TargetsFollowFromTheInputs) {
  const std::vector<std::string> few = {"data.training_sequences=64",
                                        "data.validation_sequences=8",
                                        "data.test_sequences=8"};
  for (const char* name : {"dihedral", "retrieval", "capacity"}) {
    const DataOptions options = Config(name, few).data;
    const auto task = MakeDrawnTask(options);
    for (const LoaderUse use : {LoaderUse::kTraining, LoaderUse::kTest}) {
      const auto loader = *task->MakeLoader(options, use, 3);
      const Batch batch = loader->Next().value();
      const bool test = use == LoaderUse::kTest;
      ASSERT_EQ(batch.columns,
                test && options.test_len > 0 ? options.test_len : options.seq_len);
      int64_t counted = 0;
      for (int64_t row = 0; row < batch.rows; ++row) {
        int64_t state = 0;
        std::map<int64_t, int64_t> latest;
        std::set<int64_t> values;
        for (int64_t t = 0; t < batch.columns; ++t) {
          const int64_t token = batch.inputs[row * batch.columns + t];
          const int64_t target = batch.targets[row * batch.columns + t];
          ASSERT_LT(token, task->vocab());
          counted += target != kNoTarget ? 1 : 0;
          const int64_t count = options.classes;
          if (options.task == TaskKind::kDihedral) {
            state = token == 0 ? (state + 1) % 4 : state ^ 1;
            const bool counts = !test || t >= batch.columns * 3 / 4;
            EXPECT_EQ(target, counts ? state : kNoTarget);
          } else if (token < count * count) {
            EXPECT_EQ(target, kNoTarget);
            latest[token / count] = token % count;
            values.insert(token % count);
          } else {
            ASSERT_TRUE(latest.contains(token - count * count));
            EXPECT_EQ(target, latest[token - count * count]);
          }
        }
        if (options.task == TaskKind::kCapacity) {
          EXPECT_EQ(latest.size(), static_cast<size_t>(options.classes));
          EXPECT_EQ(values.size(), latest.size());
        }
      }
      EXPECT_EQ(batch.counted(), counted);
      EXPECT_GT(counted, 0);
    }
  }
}

TEST(DrawnTask, CopyIsAStreamOverItsSegments) {
  const DataOptions options = Config("copy", {"data.training_sequences=320"}).data;
  const auto task = MakeDrawnTask(options);
  const auto loader = *task->MakeLoader(options, LoaderUse::kTraining, 3);
  ASSERT_EQ(loader->batches_per_pass(), 10);
  std::vector<std::vector<int64_t>> passes;
  for (int64_t pass = 0; pass < 2; ++pass) {
    std::vector<int64_t> stream;
    for (int64_t i = 0; i < 10; ++i) {
      const Batch batch = loader->Next().value();
      EXPECT_EQ(batch.fresh, i == 0);
      for (int64_t t = 0; t < batch.columns; ++t) {  // of the last row
        const size_t at = batch.inputs.size() - batch.columns + t;
        const auto position = static_cast<int64_t>(stream.size());
        EXPECT_EQ(batch.targets[at], position < options.distance
                                         ? kNoTarget
                                         : stream[position - options.distance]);
        stream.push_back(batch.inputs[at]);
      }
    }
    passes.push_back(stream);
  }
  EXPECT_NE(passes[0], passes[1]);
}

// A run of a committed configuration, with half its batch; its evaluation on the test
// part.
Evaluation TestOf(TrainConfig config, int64_t updates) {
  config.data.batch /= 2;
  InitTensorRuntime(1);
  WorkerPool pool(2);
  const std::unique_ptr<Task> task = MakeDrawnTask(config.data);
  config.model.vocab = task->vocab();
  const auto alone = MakeSingleProcess();
  const auto learner = *Learner::Create(config, *task, pool, *alone);
  for (int64_t i = 0; i < updates; ++i) {
    EXPECT_TRUE(learner->Update(config.schedule.lr).ok());
  }
  return **learner->Test();
}

// One layer of feedback follows the walk; the whole sequence, as long as in training.
TEST(LearningCheck, FeedbackTracksADihedralWalk) {
  const std::vector<std::string> short_test = {"data.test_len=0", "data.test_tail=1"};
  EXPECT_GE(TestOf(Config("dihedral", short_test), 200).accuracy(), 0.99);
  EXPECT_GE(TestOf(Config("dihedral", {}), 300).accuracy(), 0.75);
  EXPECT_LE(TestOf(Config("dihedral-causal", {}), 100).accuracy(), 0.4);
}

TEST(LearningCheck, MemoryCopiesOverSegments) {
  EXPECT_GE(TestOf(Config("copy", {}), 250).accuracy(), 0.99);
  EXPECT_LE(TestOf(Config("copy", {"model.mem_len=0"}), 250).accuracy(), 0.15);
}

TEST(LearningCheck, TheDeltaRuleOverwrites) {
  const std::vector<std::string> few = {"data.test_sequences=200"};
  const Evaluation delta = TestOf(Config("retrieval", few), 500);
  EXPECT_LE(delta.loss(), 0.001);
  EXPECT_EQ(delta.accuracy(), 1.0);
  const Evaluation sum = TestOf(
      Config("retrieval", {"model.update_rule=sum", "data.test_sequences=200"}), 500);
  EXPECT_GE(sum.loss(), 0.5);
  EXPECT_LE(sum.accuracy(), 0.6);
}

TEST(LearningCheck, ASumKeepsWhatFitsItsFeatures) {
  EXPECT_GE(TestOf(Config("capacity", {"data.test_sequences=100"}), 400).accuracy(),
            0.99);
}

}  // namespace
}  // namespace mnemon
