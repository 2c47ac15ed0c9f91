// SPDX-License-Identifier: MIT
#include "train/fit/learner.h"

#include <unistd.h>

#include <array>
#include <cmath>
#include <filesystem>

#include "base/files/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/io/checkpoint.h"
#include "model/sequence/runtime.h"
#include "model/sequence/tensors.h"
#include "tests/fakes/thread_group.h"
#include "tests/model/io/temporary_directory.h"
#include "train/data/text_task.h"

namespace mnemon {
namespace {

// A text with something to learn: words of a tiny grammar.
std::unique_ptr<Task> MakeTask() {
  std::string text;
  uint32_t random = 1;
  const char* words[] = {"the ", "cat ", "sat ", "on ", "a ", "mat.\n"};
  for (int i = 0; i < 600; ++i) {
    random = random * 1664525 + 1013904223;
    text += words[(random >> 24) % 6];
  }
  TextParts parts;
  parts.tokenizer = *MakeCharTokenizer(text);
  const std::vector<int32_t> tokens = *parts.tokenizer->Encode(text);
  const size_t split = tokens.size() * 9 / 10;
  parts.train.assign(tokens.begin(), tokens.begin() + split);
  parts.validation.assign(tokens.begin() + split, tokens.end());
  return MakeTextTask(std::move(parts));
}

TrainConfig MakeConfig(const ModelConfig& model, const Task& task) {
  TrainConfig config;
  config.model = model;
  config.model.vocab = task.vocab();
  config.data.seq_len = 8;
  config.data.batch = 6;
  config.sample.tokens = 6;
  return config;
}

class LearnerTest : public ::testing::Test {
 protected:
  LearnerTest() : task_(MakeTask()) { InitTensorRuntime(1); }

  std::unique_ptr<Learner> Make(const TrainConfig& config, WorkerPool& pool) {
    return Make(config, pool, *alone_);
  }
  std::unique_ptr<Learner> Make(const TrainConfig& config, WorkerPool& pool,
                                ProcessGroup& group) {
    auto learner = Learner::Create(config, *task_, pool, group);
    EXPECT_TRUE(learner.ok()) << learner.status();
    return *std::move(learner);
  }

  const std::unique_ptr<Task> task_;
  const std::unique_ptr<ProcessGroup> alone_ = MakeSingleProcess();
};

// For every variant of every architecture two ways, and each way for many: both
// loaders (the sequential one in bfloat16, too), dropout on: what Save wrote continues
// with the same bits.
TEST_F(LearnerTest, ContinuesBitForBit) {
  WorkerPool pool(2);
  const TemporaryDirectory directory;
  const std::string dir = directory.Path("checkpoint");
  const std::array ways = {
      std::tuple(LoaderKind::kShuffled, Precision::kFp32, Backward::kFused),
      std::tuple(LoaderKind::kSequential, Precision::kFp32, Backward::kFused),
      std::tuple(LoaderKind::kSequential, Precision::kFp32, Backward::kAutograd),
      std::tuple(LoaderKind::kSequential, Precision::kBf16, Backward::kFused),
      std::tuple(LoaderKind::kSequential, Precision::kFp32, Backward::kFused),
  };
  size_t next = 0;
  for (const Family& entry : Families()) {
    if (!entry.autoregressive()) continue;  // not for texts: see reverse_task_test.cc
    for (const ModelConfig& variant : entry.variants()) {
      for (int way = 0; way < 2; ++way) {
        const auto& [loader, precision, backward] = ways[next++ % ways.size()];
        TrainConfig config = MakeConfig(variant, *task_);
        config.data.loader = loader;
        config.precision = precision;
        config.backward = backward;
        ASSERT_GT(config.model.dropout, 0.0);
        auto first = Make(config, pool);
        for (int i = 0; i < 3; ++i) ASSERT_TRUE(first->Update(1e-3).ok());
        CheckpointContent content;
        ASSERT_TRUE(first->Save(content).ok());
        const absl::Status written = WriteCheckpoint(dir, content);
        ASSERT_TRUE(written.ok()) << written;

        auto second = Make(config, pool);
        const absl::Status loaded = second->Load(dir, 3, first->cursor());
        ASSERT_TRUE(loaded.ok()) << loaded;
        for (int i = 0; i < 3; ++i) {
          auto a = first->Update(1e-3), b = second->Update(1e-3);
          ASSERT_TRUE(a.ok() && b.ok());
          EXPECT_EQ(a->loss, b->loss) << ConfigToJson(config.model);
          EXPECT_EQ(a->gradient_norm, b->gradient_norm);
        }
        EXPECT_EQ(first->Validate()->nats, second->Validate()->nats);
        EXPECT_EQ(*first->Sample(), *second->Sample());
      }
    }
  }
}

TEST_F(LearnerTest, WeightsThatDoNotMatchTheManifestAreRefusedAsThat) {
  WorkerPool pool(1);
  const TrainConfig config =
      MakeConfig(FindFamily("causal").value()->variants().front(), *task_);
  auto learner = Make(config, pool);
  CheckpointContent content;
  ASSERT_TRUE(learner->Save(content).ok());
  const TemporaryDirectory directory;
  const std::string dir = directory.Path("checkpoint");
  ASSERT_TRUE(WriteCheckpoint(dir, content).ok());
  // Tensors of another model.
  const std::string weights = FormatSafetensors({}).value();
  ASSERT_TRUE(WriteFileDurably(dir + "/model.safetensors", weights).ok());
  const absl::Status loaded = learner->Load(dir, 0, learner->cursor());
  EXPECT_EQ(loaded.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(loaded.message()),
              testing::AllOf(testing::HasSubstr("/model.safetensors' has "),
                             testing::HasSubstr("manifest.json says")));
}

TEST_F(LearnerTest, LearnsAndValidationIsDeterministic) {
  WorkerPool pool(2);
  for (const Family& entry : Families()) {
    if (!entry.autoregressive()) continue;
    auto learner = Make(MakeConfig(entry.variants().front(), *task_), pool);
    const double before = learner->Validate()->loss();
    EXPECT_EQ(before, learner->Validate()->loss());
    EXPECT_NEAR(before, std::log(task_->vocab()), 1.0) << entry.name;
    for (int i = 0; i < 60; ++i) ASSERT_TRUE(learner->Update(1e-2).ok());
    EXPECT_LT(learner->Validate()->loss(), before - 0.3) << entry.name;
    EXPECT_FALSE(learner->Test()->has_value());
  }
}

std::string Weights(const Learner& learner) {
  CheckpointContent content;
  EXPECT_TRUE(learner.Save(content).ok());
  return content["model.safetensors"];
}

// For every variant one way, and each way for many, dropout on; also with more threads
// than shards.
TEST_F(LearnerTest, ThreadsChangeNoBit) {
  WorkerPool one(1), two(2), three(3), many(7);
  const std::array ways = {std::pair(LoaderKind::kShuffled, Backward::kFused),
                           std::pair(LoaderKind::kSequential, Backward::kFused),
                           std::pair(LoaderKind::kSequential, Backward::kAutograd)};
  size_t next = 0;
  for (const Family& entry : Families()) {
    if (!entry.autoregressive()) continue;
    for (const ModelConfig& variant : entry.variants()) {
      TrainConfig config = MakeConfig(variant, *task_);
      ASSERT_GT(config.model.dropout, 0.0);
      std::tie(config.data.loader, config.backward) = ways[next++ % ways.size()];
      auto first = Make(config, one);
      std::vector<UpdateResult> expected;
      for (int i = 0; i < 3; ++i) expected.push_back(*first->Update(1e-3));
      for (WorkerPool* pool : {&two, &three, &many}) {
        auto learner = Make(config, *pool);
        for (const UpdateResult& update : expected) {
          auto found = learner->Update(1e-3);
          ASSERT_TRUE(found.ok());
          EXPECT_EQ(found->loss, update.loss) << entry.name;
          EXPECT_EQ(found->gradient_norm, update.gradient_norm) << entry.name;
        }
        EXPECT_EQ(Weights(*learner), Weights(*first)) << entry.name;
        EXPECT_EQ(learner->Validate()->nats, first->Validate()->nats);
      }
    }
  }
}

// For every variant one way, dropout on: processes, here threads, that share out
// batches, the last of a pass too; what one saved goes on in others.
TEST_F(LearnerTest, ProcessesChangeNoBit) {
  const std::string dir =
      testing::TempDir() + "/learner_processes_" + std::to_string(getpid());
  WorkerPool pool(1);
  const std::array ways = {
      std::tuple(LoaderKind::kShuffled, Backward::kFused, 4, 4),
      std::tuple(LoaderKind::kSequential, Backward::kAutograd, 6, 4),
      std::tuple(LoaderKind::kSequential, Backward::kFused, 4, 2),
      std::tuple(LoaderKind::kShuffled, Backward::kAutograd, 3, 2),
      std::tuple(LoaderKind::kSequential, Backward::kFused, 5, 4),
  };
  size_t next = 0;  // each variant goes one way, and each way is gone by many
  for (const Family& entry : Families()) {
    if (!entry.autoregressive()) continue;
    for (const ModelConfig& variant : entry.variants()) {
      const auto& [loader, backward, shards, processes] = ways[next++ % ways.size()];
      TrainConfig config = MakeConfig(variant, *task_);
      config.data.loader = loader;
      config.backward = backward;
      config.shards = shards;
      auto first = Make(config, pool);
      CheckpointContent content;
      CurriculumCursor cursor;
      std::vector<UpdateResult> expected;
      // Shuffled: to the last batch of a pass, which has fewer rows.
      const int64_t updates =
          loader == LoaderKind::kShuffled ? first->updates_per_epoch() + 1 : 5;
      for (int64_t i = 0; i < updates; ++i) {
        if (i == 2) {
          ASSERT_TRUE(first->Save(content).ok());
          ASSERT_TRUE(WriteCheckpoint(dir, content).ok());
          cursor = first->cursor();
        }
        expected.push_back(*first->Update(1e-3));
      }
      const double validation = first->Validate()->nats;
      const std::string weights = Weights(*first);
      RunAsProcesses(processes, [&](ProcessGroup& group) {
        WorkerPool own(1);
        auto learner = Make(config, own, group);
        if (group.first()) {
          ASSERT_TRUE(learner->Load(dir, 2, cursor).ok());
        }
        ASSERT_TRUE(learner->Distribute().ok());
        for (int64_t i = 2; i < updates; ++i) {
          const auto found = learner->Update(1e-3);
          ASSERT_TRUE(found.ok()) << found.status();
          EXPECT_EQ(found->loss, expected[i].loss) << ConfigToJson(config.model);
          EXPECT_EQ(found->gradient_norm, expected[i].gradient_norm);
        }
        EXPECT_EQ(learner->Validate()->nats, validation);
        CheckpointContent saved;
        ASSERT_TRUE(learner->Save(saved).ok());
        if (!group.first()) return;
        EXPECT_EQ(saved["model.safetensors"], weights);
        CheckpointContent whole;
        ASSERT_TRUE(first->Save(whole).ok());
        EXPECT_EQ(saved, whole);
      });
      std::filesystem::remove_all(dir);
    }
  }
}

// Shards change the order of sums, and nothing else: masks of dropout are those of the
// rows. Also more shards than rows.
TEST_F(LearnerTest, ShardsChangeRoundingOnly) {
  WorkerPool pool(2);
  for (const Family& entry : Families()) {
    if (!entry.autoregressive()) continue;
    TrainConfig config = MakeConfig(entry.variants().front(), *task_);
    for (LoaderKind loader : {LoaderKind::kShuffled, LoaderKind::kSequential}) {
      config.data.loader = loader;
      config.shards = 1;
      auto whole = Make(config, pool);
      std::vector<UpdateResult> expected;
      for (int i = 0; i < 3; ++i) expected.push_back(*whole->Update(1e-3));
      for (const int64_t shards : {2, 5, 100}) {
        config.shards = shards;
        auto cut = Make(config, pool);
        for (const UpdateResult& update : expected) {
          auto found = cut->Update(1e-3);
          ASSERT_TRUE(found.ok());
          EXPECT_NEAR(found->loss, update.loss, 1e-4) << entry.name;
          EXPECT_NEAR(found->gradient_norm, update.gradient_norm, 1e-3) << entry.name;
        }
      }
    }
  }
}

// For every variant, both loaders, dropout on: updates, validation and what is carried.
TEST_F(LearnerTest, PassesAndAutogradAgree) {
  WorkerPool pool(2);
  for (const Family& entry : Families()) {
    if (!entry.autoregressive()) continue;
    for (const ModelConfig& variant : entry.variants()) {
      TrainConfig config = MakeConfig(variant, *task_);
      for (LoaderKind loader : {LoaderKind::kShuffled, LoaderKind::kSequential}) {
        config.data.loader = loader;
        config.backward = Backward::kFused;
        auto fused = Make(config, pool);
        config.backward = Backward::kAutograd;
        auto autograd = Make(config, pool);
        for (int i = 0; i < 5; ++i) {
          const auto a = fused->Update(1e-3), b = autograd->Update(1e-3);
          ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
          EXPECT_NEAR(a->loss, b->loss, 1e-4) << entry.name;
          EXPECT_NEAR(a->gradient_norm, b->gradient_norm, 1e-3) << entry.name;
        }
        const auto a = fused->Validate(), b = autograd->Validate();
        ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
        EXPECT_NEAR(a->loss(), b->loss(), 1e-4) << entry.name;
        EXPECT_NEAR(a->accuracy(), b->accuracy(), 0.02) << entry.name;
      }
    }
  }
}

// Longer than Transformer-XL has positions, and than a growing memory has room.
TEST_F(LearnerTest, ALongPromptDoesNotEndTheRun) {
  WorkerPool pool(1);
  for (const Family& entry : Families()) {
    if (!entry.autoregressive()) continue;
    for (const ModelConfig& variant : entry.variants()) {
      TrainConfig config = MakeConfig(variant, *task_);
      for (int i = 0; i < 300; ++i) config.sample.prompt += "cat ";
      const auto sample = Make(config, pool)->Sample();
      ASSERT_TRUE(sample.ok()) << entry.name << sample.status();
      EXPECT_EQ(sample->rfind(config.sample.prompt, 0), 0u);
    }
  }
}

// Position tables of many rows, of which the batches read a few: the weights are those
// that updates of all rows give, with decay or without, and a run goes on with the
// same bits, also when later batches read more rows.
TEST_F(LearnerTest, RowsThatNoBatchReadTakeNoPart) {
  WorkerPool pool(2);
  const TemporaryDirectory directory;
  const std::string dir = directory.Path("checkpoint");
  double decay = 0.1;
  for (const Family& entry : Families()) {
    if (!entry.autoregressive() || entry.name == "fast_weights") continue;
    for (ModelConfig variant : entry.variants()) {
      variant.positions = 4096;
      variant.d_model = 64 * variant.heads;  // a few rows fill a block
      TrainConfig config = MakeConfig(variant, *task_);
      config.data.loader = LoaderKind::kSequential;
      decay = 0.1 - decay;
      // Adam would make full steps of the rounding of gradients that should be 0.
      config.optimiser = {
          .kind = OptimiserKind::kSgd, .weight_decay = decay, .momentum = 0.9};
      config.backward = Backward::kFused;
      auto fused = Make(config, pool);
      config.backward = Backward::kAutograd;
      auto autograd = Make(config, pool);
      for (int i = 0; i < 4; ++i) {
        ASSERT_TRUE(fused->Update(0.1).ok());
        ASSERT_TRUE(autograd->Update(0.1).ok());
      }
      const Safetensors found = Safetensors::FromBytes(Weights(*fused)).value();
      const Safetensors expected = Safetensors::FromBytes(Weights(*autograd)).value();
      for (const TensorInfo& info : expected.header().tensors) {
        const at::Tensor a = ToTensor(found, *found.Find(info.name)).value();
        const at::Tensor b = ToTensor(expected, info).value();
        EXPECT_LT((a - b).abs().max().item<double>(), 1e-4) << info.name;
      }
      config.optimiser.kind = OptimiserKind::kAdamw;
      config.backward = Backward::kFused;
      auto first = Make(config, pool);
      // Up to a batch that begins afresh, and reads fewer rows than those before.
      const int64_t updates = decay == 0 ? first->updates_per_epoch() : 3;
      for (int64_t i = 0; i < updates; ++i) {
        const auto update = first->Update(1e-3);
        ASSERT_TRUE(update.ok()) << entry.name << i << update.status();
      }
      CheckpointContent content;
      ASSERT_TRUE(first->Save(content).ok());
      ASSERT_TRUE(WriteCheckpoint(dir, content).ok());
      auto resumed = Make(config, pool);
      ASSERT_TRUE(resumed->Load(dir, updates, first->cursor()).ok());
      for (int i = 0; i < 3; ++i) {
        const auto a = first->Update(1e-2), b = resumed->Update(1e-2);
        ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
        EXPECT_EQ(a->gradient_norm, b->gradient_norm) << entry.name;
      }
      EXPECT_EQ(Weights(*first), Weights(*resumed)) << entry.name;
    }
  }
}

TEST_F(LearnerTest, ALongGradientIsClipped) {
  WorkerPool pool(2);
  TrainConfig config = MakeConfig(Families()[3].variants().front(), *task_);
  config.optimiser.kind = OptimiserKind::kSgd;
  // The length of the step that the first update makes, at a rate of 1.
  const auto step = [&](double clip) {
    config.clip = clip;
    auto learner = Make(config, pool);
    const Safetensors before = Safetensors::FromBytes(Weights(*learner)).value();
    EXPECT_GT(learner->Update(1.0)->gradient_norm, 0.01);
    const Safetensors after = Safetensors::FromBytes(Weights(*learner)).value();
    double squares = 0;
    for (const TensorInfo& info : before.header().tensors) {
      const at::Tensor a = ToTensor(before, info).value();
      const at::Tensor b = ToTensor(after, *after.Find(info.name)).value();
      squares += (a - b).to(at::kDouble).square().sum().item<double>();
    }
    return std::sqrt(squares);
  };
  EXPECT_NEAR(step(0.01), 0.01, 1e-5);
  EXPECT_GT(step(0), 0.02);
}

TEST_F(LearnerTest, DivergenceIsAnErrorAndLeavesTheWeights) {
  WorkerPool pool(2);
  TrainConfig config = MakeConfig(Families()[3].variants().front(), *task_);
  config.clip = 0;
  config.optimiser.kind = OptimiserKind::kSgd;
  config.sample.prompt = "cat";
  auto learner = Make(config, pool);
  absl::Status status;
  for (int i = 0; i < 20 && status.ok(); ++i) {
    status = learner->Update(1e30).status();
    const auto sample = learner->Sample();
    EXPECT_TRUE(sample.ok()) << sample.status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("the loss is"));
}

TEST_F(LearnerTest, FaultsOfTheTextAreNamed) {
  WorkerPool pool(1);
  TrainConfig config = MakeConfig(Families()[3].variants().front(), *task_);
  config.sample.prompt = "caf\xc3\xa9";
  absl::Status status = Learner::Create(config, *task_, pool, *alone_).status();
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("sample.prompt"));
  config.sample.prompt.clear();
  config.data.seq_len = 1 << 19;
  status = Learner::Create(config, *task_, pool, *alone_).status();
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("data.text"));
}

}  // namespace
}  // namespace mnemon
