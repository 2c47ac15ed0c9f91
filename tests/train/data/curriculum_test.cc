// SPDX-License-Identifier: MIT
#include "train/data/curriculum.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "train/data/drawn_task.h"

namespace mnemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseCurriculum, StagesInOrder) {
  EXPECT_THAT(*ParseCurriculum("4:100 8:200"),
              ElementsAre(CurriculumStage{4, 100}, CurriculumStage{8, 200}));
  EXPECT_THAT(*ParseCurriculum("  1:1 "), ElementsAre(CurriculumStage{1, 1}));
  EXPECT_TRUE(ParseCurriculum("")->empty());
}

TEST(ParseCurriculum, WhatIsNoStageIsNamed) {
  for (const char* wrong : {"4", "4:", ":4", "4:0", "0:4", "-4:4", "4:4x", "4:4,8:8",
                            "4:1e3", "4:99999999999999999999"}) {
    const auto stages = ParseCurriculum(wrong);
    EXPECT_EQ(stages.status().code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(std::string(stages.status().message()), HasSubstr("LENGTH:UPDATES"));
  }
}

TrainConfig Config(const std::string& curriculum) {
  TrainConfig config;
  config.data = {.task = TaskKind::kDihedral,
                 .seq_len = 16,
                 .curriculum = curriculum,
                 .batch = 4,
                 .training_sequences = 12};
  return config;
}

Curriculum Make(const Task& task, const std::string& curriculum) {
  auto made = Curriculum::Create(task, Config(curriculum).data, 1);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

// Three batches are a pass: a stage may end within one, or go through several.
TEST(Curriculum, LengthsGrowAndTheLastStays) {
  const auto task = LoadTask(Config(""));
  ASSERT_TRUE(task.ok()) << task.status();
  Curriculum batches = Make(**task, "2:2 4:7");
  EXPECT_EQ(batches.batches_before(), 9);
  EXPECT_EQ(batches.batches_per_pass(), 3);
  std::vector<int64_t> lengths;
  for (int i = 0; i < 14; ++i) {
    const Batch batch = *batches.Next();
    EXPECT_TRUE(batch.fresh);
    lengths.push_back(batch.columns);
  }
  EXPECT_THAT(lengths, ElementsAre(2, 2, 4, 4, 4, 4, 4, 4, 4, 16, 16, 16, 16, 16));
  EXPECT_EQ(batches.cursor().stage, 2);
  EXPECT_EQ(batches.cursor().within.pass, 1);
  EXPECT_EQ(batches.cursor().within.batch, 2);
}

TEST(Curriculum, GoesOnFromEveryCursor) {
  const auto task = LoadTask(Config(""));
  ASSERT_TRUE(task.ok()) << task.status();
  const std::string stages = "2:2 4:7";
  Curriculum all = Make(**task, stages), moved = Make(**task, stages);
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(moved.Next().ok());
  std::vector<CurriculumCursor> cursors;
  std::vector<Batch> batches;
  for (int i = 0; i < 20; ++i) {
    cursors.push_back(all.cursor());
    batches.push_back(*all.Next());
  }
  for (size_t from = cursors.size(); from-- > 0;) {
    Curriculum fresh = Make(**task, stages);
    for (Curriculum* resumed : {&fresh, &moved}) {
      ASSERT_TRUE(resumed->Has(cursors[from])) << from;
      resumed->Seek(cursors[from]);
      for (size_t i = from; i < batches.size(); ++i) {
        const Batch batch = *resumed->Next();
        EXPECT_EQ(batch.inputs, batches[i].inputs) << from << " " << i;
        EXPECT_EQ(batch.targets, batches[i].targets);
      }
    }
  }
}

TEST(Curriculum, CursorsOutsideAreRefused) {
  const auto task = LoadTask(Config(""));
  ASSERT_TRUE(task.ok()) << task.status();
  const Curriculum batches = Make(**task, "2:2 4:7");
  const auto has = [&](int64_t stage, int64_t pass, int64_t batch) {
    return batches.Has({.stage = stage, .within = {.pass = pass, .batch = batch}});
  };
  EXPECT_TRUE(has(0, 0, 1));
  EXPECT_FALSE(has(0, 0, 2));  // the first of the next stage
  EXPECT_TRUE(has(1, 2, 0));
  EXPECT_FALSE(has(1, 2, 1));
  EXPECT_FALSE(has(1, int64_t{1} << 62, 0));
  EXPECT_TRUE(has(2, 1000, 2));
  EXPECT_FALSE(has(2, 0, 3));
  EXPECT_FALSE(has(3, 0, 0));
  EXPECT_FALSE(has(-1, 0, 0));
  EXPECT_FALSE(has(0, -1, 0));
  EXPECT_FALSE(has(0, 0, -1));
}

std::string Faults(const std::string& curriculum) {
  TrainConfig config = Config(curriculum);
  config.model = {.architecture = "feedback",
                  .d_model = 8,
                  .heads = 2,
                  .layers = 1,
                  .d_ff = 8,
                  .position_kind = PositionKind::kRelative};
  config.duration.steps = 1;
  return std::string(ValidateTrainConfig(config).message());
}

TEST(Curriculum, TheConfigurationIsChecked) {
  EXPECT_EQ(Faults("4:1 16:1"), "");
  EXPECT_THAT(Faults("8:1 4:1"),
              HasSubstr("a stage of 4: shorter than the one before"));
  EXPECT_THAT(Faults("4"), HasSubstr("data.curriculum: a stage is LENGTH:UPDATES"));
  EXPECT_THAT(
      Faults("17:1"),
      HasSubstr("data.curriculum: a stage of 17: longer than data.seq_len, 16"));
}

}  // namespace
}  // namespace mnemon
