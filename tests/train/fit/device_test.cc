// SPDX-License-Identifier: MIT
// Training on another device than the CPU: the same run but for rounding, and what it
// saves can be read anywhere.

#include "model/sequence/device.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/io/checkpoint.h"
#include "model/sequence/runtime.h"
#include "tests/fakes/device/host_device.h"
#include "tests/model/io/temporary_directory.h"
#include "train/data/drawn_task.h"
#include "train/data/text_task.h"
#include "train/fit/learner.h"

namespace mnemon {
namespace {

DataOptions DataFor(const Family& entry) {
  DataOptions data{.seq_len = 8, .batch = 4};
  if (entry.autoregressive()) {
    data.loader = LoaderKind::kSequential;
  } else {
    data.task = TaskKind::kReverse;
    data.classes = 6;
    data.training_sequences = 24;
    data.validation_sequences = data.test_sequences = 8;
  }
  return data;
}

std::unique_ptr<Task> MakeTask(const Family& entry) {
  if (!entry.autoregressive()) return MakeDrawnTask(DataFor(entry));
  TextParts parts;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "abcde fgh ";
  parts.tokenizer = *MakeCharTokenizer(text);
  parts.train = *parts.tokenizer->Encode(text);
  parts.validation.assign(parts.train.begin(), parts.train.begin() + 100);
  return MakeTextTask(std::move(parts));
}

class TrainingOnADevice : public ::testing::Test {
 protected:
  TrainingOnADevice() { InitTensorRuntime(1); }

  TrainConfig Config(const Family& entry, const Task& task, OptimiserKind kind) const {
    TrainConfig config;
    config.model = entry.variants().front();
    config.model.vocab = task.vocab();
    config.data = DataFor(entry);
    config.optimiser.kind = kind;
    config.optimiser.weight_decay = 0.01;
    config.sample.tokens = 6;
    return config;
  }
  std::unique_ptr<Learner> Make(const TrainConfig& config, const Task& task,
                                at::Device device) {
    auto learner = Learner::Create(config, task, pool_, *alone_, device);
    EXPECT_TRUE(learner.ok()) << learner.status();
    EXPECT_EQ((*learner)->device(), device);
    return *std::move(learner);
  }

  WorkerPool pool_{1};
  const std::unique_ptr<ProcessGroup> alone_ = MakeSingleProcess();
};

TEST_F(TrainingOnADevice, EqualsTheCpuButForRounding) {
  const at::Device device = AcceleratorForTests();
  for (const Family& entry : Families()) {
    for (const OptimiserKind kind :
         {OptimiserKind::kSgd, OptimiserKind::kAdam, OptimiserKind::kAdamw,
          OptimiserKind::kAdamLabml}) {
      SCOPED_TRACE(device.str() + " " + std::string(entry.name));
      const std::unique_ptr<Task> task = MakeTask(entry);
      TrainConfig config = Config(entry, *task, kind);
      auto here = Make(config, *task, at::kCPU), there = Make(config, *task, device);
      for (int i = 0; i < 3; ++i) {
        auto a = here->Update(1e-2), b = there->Update(1e-2);
        ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
        EXPECT_NEAR(a->loss, b->loss, 1e-3);
        EXPECT_NEAR(a->gradient_norm, b->gradient_norm, 1e-3);
      }
      EXPECT_NEAR(here->Validate()->loss(), there->Validate()->loss(), 1e-3);
      EXPECT_EQ(there->Sample()->empty(), !entry.autoregressive());
    }
  }
}

TEST_F(TrainingOnADevice, WhatItSavesContinues) {
  const TemporaryDirectory directory;
  const std::string dir = directory.Path("checkpoint");
  const at::Device device = AcceleratorForTests();
  for (const Family& entry : Families()) {
    SCOPED_TRACE(device.str() + " " + std::string(entry.name));
    const std::unique_ptr<Task> task = MakeTask(entry);
    const TrainConfig config = Config(entry, *task, OptimiserKind::kAdam);
    auto first = Make(config, *task, device);
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(first->Update(1e-3).ok());
    CheckpointContent content;
    ASSERT_TRUE(first->Save(content).ok());
    ASSERT_TRUE(WriteCheckpoint(dir, content).ok());
    auto second = Make(config, *task, device);
    const absl::Status loaded = second->Load(dir, 2, first->cursor());
    ASSERT_TRUE(loaded.ok()) << loaded;
    for (int i = 0; i < 2; ++i) {
      auto a = first->Update(1e-3), b = second->Update(1e-3);
      ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
      EXPECT_NEAR(a->loss, b->loss, device == HostDevice() ? 0 : 1e-4);
    }
  }
}

}  // namespace
}  // namespace mnemon
