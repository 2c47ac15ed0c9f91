// SPDX-License-Identifier: MIT
#include "train/run/run_directory.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/io/temporary_directory.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;

class RunDirectoryTest : public ::testing::Test {
 protected:
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  std::string Link(const char* name) const {
    return fs::read_symlink(path_ / name).string();
  }

  const CheckpointContent content_ = {{"training/state.json", "{}"}};
  const TemporaryDirectory directory_;
  const fs::path path_ = directory_.Path("run");
};

TEST_F(RunDirectoryTest, OnlyEmptyDirectoriesWithoutResume) {
  ASSERT_TRUE(RunDirectory::Open(path_, false).ok());
  ASSERT_TRUE(RunDirectory::Open(path_, false).ok());
  std::ofstream(path_ / "metrics.csv") << "x";
  const absl::Status status = RunDirectory::Open(path_, false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--resume"));
  // What is refused is left as it is.
  fs::remove(path_ / "LOCK");
  EXPECT_FALSE(RunDirectory::Open(path_, false).ok());
  EXPECT_THAT(Names(), testing::ElementsAre("metrics.csv"));
  auto resumed = RunDirectory::Open(path_, true);
  ASSERT_TRUE(resumed.ok());
  EXPECT_FALSE(resumed->last().has_value());
}

TEST_F(RunDirectoryTest, BelongsToOneRunAtATime) {
  for (const bool resume : {false, true}) {
    const auto run = RunDirectory::Open(path_, resume);
    ASSERT_TRUE(run.ok()) << run.status();
    for (const bool again : {false, true}) {
      const absl::Status status = RunDirectory::Open(path_, again).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(
          std::string(status.message()),
          testing::HasSubstr("is in use by process " + std::to_string(::getpid())));
    }
  }
}

TEST_F(RunDirectoryTest, KeepsTheNewestAndTheBest) {
  auto run = RunDirectory::Open(path_, false);
  ASSERT_TRUE(run.ok());
  for (int64_t step : {10, 20, 30, 40, 50}) {
    ASSERT_TRUE(run->Save(step, content_, /*best_step=*/20, /*keep=*/2).ok() ||
                step < 20);
  }
  EXPECT_THAT(Names(), testing::ElementsAre("LOCK", "best", "last", "step-20",
                                            "step-40", "step-50"));
  EXPECT_EQ(Link("last"), "step-50");
  EXPECT_EQ(Link("best"), "step-20");
  EXPECT_EQ(run->last(), 50);
}

// Else a new run would remove its own checkpoints as the older ones.
TEST_F(RunDirectoryTest, WithoutTheLinkTheNewestCheckpointIsTheLast) {
  {
    auto run = RunDirectory::Open(path_, false);
    for (int64_t step : {900, 1000}) {
      ASSERT_TRUE(run->Save(step, content_, 0, 2).ok());
    }
  }
  fs::remove(path_ / "last");
  auto resumed = RunDirectory::Open(path_, true);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->last(), 1000);
  ASSERT_TRUE(resumed->Save(1010, content_, 0, 2).ok());
  EXPECT_EQ(Link("last"), "step-1010");
  EXPECT_TRUE(fs::exists(path_ / "last/training/state.json"));
}

TEST_F(RunDirectoryTest, LeftoversAfterTheNewestCheckpointGo) {
  ASSERT_TRUE(RunDirectory::Open(path_, false)->Save(10, content_, 0, 2).ok());
  fs::create_directory(path_ / "step-15");
  fs::create_directory(path_ / "step-x");
  auto resumed = RunDirectory::Open(path_, true);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->last(), 10);
  EXPECT_THAT(Names(), testing::ElementsAre("LOCK", "last", "step-10", "step-x"));
}

TEST_F(RunDirectoryTest, AStrangeLinkIsNamed) {
  ASSERT_TRUE(RunDirectory::Open(path_, false).ok());
  fs::create_symlink("/etc", path_ / "last");
  EXPECT_EQ(RunDirectory::Open(path_, true).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace mnemon
