// SPDX-License-Identifier: MIT
// Training on another device than the CPU: the same run but for rounding, and what it
// saves can be read anywhere.
#include <filesystem>

#include "gtest/gtest.h"
#include "model/device.h"
#include "model/io/checkpoint.h"
#include "model/registry.h"
#include "model/runtime.h"
#include "tests/fakes/host_device.h"
#include "train/learner.h"

namespace mnemon {
namespace {

TextTask MakeTask() {
  TextTask task;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "abcde fgh ";
  task.tokenizer = *MakeCharTokenizer(text);
  task.train = *task.tokenizer->Encode(text);
  task.validation.assign(task.train.begin(), task.train.begin() + 100);
  return task;
}

class TrainingOnADevice : public ::testing::Test {
 protected:
  TrainingOnADevice() : task_(MakeTask()) { InitTensorRuntime(1); }

  TrainConfig Config(ModelConfig model, OptimiserKind kind) const {
    TrainConfig config;
    config.model = std::move(model);
    config.model.vocab = task_.tokenizer->size();
    config.data.batch = 4;
    config.data.seq_len = 8;
    config.data.loader = LoaderKind::kSequential;
    config.optimiser.kind = kind;
    config.optimiser.weight_decay = 0.01;
    config.sample.tokens = 6;
    return config;
  }
  std::unique_ptr<Learner> Make(const TrainConfig& config, at::Device device) {
    auto learner = Learner::Create(config, task_, team_, device);
    EXPECT_TRUE(learner.ok()) << learner.status();
    return *std::move(learner);
  }

  Team team_{1};
  const TextTask task_;
};

// A device that is always there, and the GPU of the machine.
std::vector<at::Device> Devices() {
  std::vector<at::Device> devices = {HostDevice()};
  if (const auto gpu = FindDevice("cuda"); gpu.ok()) devices.push_back(*gpu);
  return devices;
}

TEST_F(TrainingOnADevice, EqualsTheCpuButForRounding) {
  for (const at::Device device : Devices()) {
    for (const ArchitectureEntry& entry : Architectures()) {
      for (const OptimiserKind kind :
           {OptimiserKind::kSgd, OptimiserKind::kAdam, OptimiserKind::kAdamw,
            OptimiserKind::kAdamLabml}) {
        SCOPED_TRACE(device.str() + " " + std::string(entry.name));
        TrainConfig config = Config(entry.variants().front(), kind);
        // A GPU has random numbers of its own.
        if (device != HostDevice()) config.model.dropout = 0;
        auto here = Make(config, at::kCPU), there = Make(config, device);
        for (int i = 0; i < 3; ++i) {
          auto a = here->Update(1e-2), b = there->Update(1e-2);
          ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
          EXPECT_NEAR(a->loss, b->loss, 1e-3);
          EXPECT_NEAR(a->gradient_norm, b->gradient_norm, 1e-3);
        }
        EXPECT_NEAR(*here->Validate(), *there->Validate(), 1e-3);
        EXPECT_FALSE(there->Sample()->empty());
      }
    }
  }
}

TEST_F(TrainingOnADevice, WhatItSavesContinues) {
  const std::string dir = testing::TempDir() + "/device_checkpoint";
  for (const at::Device device : Devices()) {
    for (const ArchitectureEntry& entry : Architectures()) {
      SCOPED_TRACE(device.str() + " " + std::string(entry.name));
      const TrainConfig config = Config(entry.variants().front(), OptimiserKind::kAdam);
      auto first = Make(config, device);
      for (int i = 0; i < 2; ++i) ASSERT_TRUE(first->Update(1e-3).ok());
      CheckpointContent content;
      ASSERT_TRUE(first->Save(content).ok());
      ASSERT_TRUE(WriteCheckpoint(dir, content).ok());
      auto second = Make(config, device);
      const absl::Status loaded = second->Load(dir, 2, first->cursor());
      ASSERT_TRUE(loaded.ok()) << loaded;
      for (int i = 0; i < 2; ++i) {
        auto a = first->Update(1e-3), b = second->Update(1e-3);
        ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
        EXPECT_NEAR(a->loss, b->loss, device == HostDevice() ? 0 : 1e-4);
      }
    }
  }
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace mnemon
