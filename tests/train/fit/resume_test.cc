// SPDX-License-Identifier: MIT
// The real binary: undisturbed, killed at random moments and resumed, interrupted, out
// of disk. A run and its resumed twin must write the same metrics.csv and
// samples.jsonl to the byte.
#include "tests/train/run/trainer_run.h"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>

#include "gmock/gmock.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;

class Resume : public TrainerRun {};

// The numbers of one column, below the header.
std::vector<double> Column(const fs::path& csv, const std::string& name) {
  std::istringstream rows(Content(csv));
  std::vector<double> column;
  std::string row, cell;
  std::getline(rows, row);
  std::istringstream header(row);
  int index = 0;
  while (std::getline(header, cell, ',') && cell != name) ++index;
  while (std::getline(rows, row)) {
    std::istringstream cells(row);
    for (int i = 0; i <= index; ++i) std::getline(cells, cell, ',');
    column.push_back(std::stod(cell));
  }
  return column;
}

bool Ascends(const std::vector<double>& numbers) {
  return !numbers.empty() && std::is_sorted(numbers.begin(), numbers.end());
}

// Uses another number of threads each time.
TEST_F(Resume, KilledAtRandomMomentsEveryArchitecture) {
  std::mt19937 random(std::random_device{}());
  for (const Architecture& architecture : AllArchitectures()) {
    WriteConfig(architecture, 25);
    const fs::path calm = root_ / (architecture.name + "-calm");
    const auto began = std::chrono::steady_clock::now();
    ASSERT_EQ(Run(calm), 0) << Output();
    auto whole = std::chrono::duration_cast<milliseconds>(
        std::chrono::steady_clock::now() - began);

    const fs::path killed = root_ / (architecture.name + "-killed");
    int kills = 0;
    for (int round = 0; round < 2 || (kills == 0 && round < 12); ++round) {
      threads_ = 1 + 3 * (round % 2);
      const pid_t child = Start(killed, {"--resume"});
      // Mostly after the start, in training, checkpoints and validation alike.
      std::this_thread::sleep_for(whole * (30 + random() % 60) / 100);
      kill(child, SIGKILL);
      if (Wait(child) == -SIGKILL) {
        ++kills;
      } else if (kills == 0) {
        // The calm run met a busier machine: begin again, and strike earlier.
        fs::remove_all(killed);
        whole /= 2;
      }
    }
    EXPECT_GT(kills, 0);
    threads_ = 4;
    ASSERT_EQ(Run(killed, {"--resume"}), 0) << Output();
    threads_ = 2;
    EXPECT_EQ(ExactMetrics(killed), ExactMetrics(calm)) << architecture.name;
    EXPECT_EQ(Content(killed / "samples.jsonl"), Content(calm / "samples.jsonl"))
        << architecture.name;
    EXPECT_TRUE(Ascends(Column(killed / "metrics.csv", "tokens"))) << architecture.name;
    EXPECT_TRUE(Ascends(Column(killed / "metrics.csv", "seconds")))
        << architecture.name;
    EXPECT_EQ(Content(killed / "last/model.safetensors"),
              Content(calm / "last/model.safetensors"))
        << architecture.name;
    EXPECT_EQ(fs::read_symlink(killed / "best"), fs::read_symlink(calm / "best"));
    for (const auto& entry : fs::directory_iterator(killed)) {
      EXPECT_THAT(
          entry.path().filename().string(),
          testing::MatchesRegex("step-.*|last|best|LOCK|metrics.csv|samples.jsonl"));
    }
  }
}

TEST_F(Resume, ACrashBeforeTheLinkOfTheBestIsMadeGood) {
  WriteConfig(AllArchitectures()[0], 10);
  const fs::path out = root_ / "run";
  ASSERT_EQ(Run(out), 0) << Output();
  const fs::path best = fs::read_symlink(out / "best");
  fs::remove(out / "best");
  fs::create_symlink("step-1", out / "best");
  ASSERT_EQ(Run(out, {"--resume"}), 0) << Output();
  EXPECT_EQ(fs::read_symlink(out / "best"), best);
}

TEST_F(Resume, CtrlCSavesAndSaysHowToContinue) {
  WriteConfig(AllArchitectures()[0], 100000);
  const fs::path out = root_ / "run";
  const pid_t child = Start(out, {});
  ASSERT_TRUE(WaitForCheckpoint(child, out)) << Output();
  kill(child, SIGINT);
  EXPECT_EQ(Wait(child), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("stopped at update"));
  EXPECT_THAT(Output(), HasSubstr("--resume"));
  EXPECT_THAT(Output(), HasSubstr("--out " + out.string()));
  EXPECT_EQ(Run(out), 1);
  EXPECT_THAT(Output(), HasSubstr("--resume"));
  EXPECT_EQ(Run(out, {"--resume", "--set", "optimiser.lr=0.5"}), 1);
  EXPECT_THAT(Output(), HasSubstr("optimiser.lr was 0.001 and is now 0.5"));
  EXPECT_EQ(Run(out, {"--resume", "--threads", "1"}), 2);  // given twice
}

TEST_F(Resume, AnInterruptedRunEndsAsAnUndisturbedOne) {
  WriteConfig(AllArchitectures()[2], 150);
  ASSERT_EQ(Run(root_ / "calm"), 0) << Output();
  const fs::path out = root_ / "interrupted";
  const pid_t child = Start(out, {});
  ASSERT_TRUE(WaitForCheckpoint(child, out)) << Output();
  kill(child, SIGTERM);
  ASSERT_EQ(Wait(child), 0) << Output();
  ASSERT_EQ(Run(out, {"--resume"}), 0) << Output();
  EXPECT_EQ(ExactMetrics(out), ExactMetrics(root_ / "calm"));
  ASSERT_EQ(Run(out, {"--resume"}), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("resumed at update 150 of 150"));
  EXPECT_EQ(ExactMetrics(out), ExactMetrics(root_ / "calm"));
  EXPECT_EQ(Content(out / "samples.jsonl"), Content(root_ / "calm/samples.jsonl"));
}

TEST_F(Resume, ARunKeepsItsPrecision) {
  WriteConfig(AllArchitectures()[2], 25);
  ASSERT_EQ(Run(root_ / "fp32"), 0) << Output();
  const std::vector<std::string> bf16 = {"--set", "train.precision=bf16"};
  ASSERT_EQ(Run(root_ / "calm", bf16), 0) << Output();
  EXPECT_NE(ExactMetrics(root_ / "calm"), ExactMetrics(root_ / "fp32"));
  const fs::path out = root_ / "interrupted";
  const pid_t child = Start(out, bf16);
  ASSERT_TRUE(WaitForCheckpoint(child, out)) << Output();
  kill(child, SIGKILL);
  Wait(child);
  EXPECT_EQ(Run(out, {"--resume"}), 1);
  EXPECT_THAT(Output(), HasSubstr("train.precision was bf16 and is now fp32"));
  ASSERT_EQ(Run(out, {"--resume", "--set", "train.precision=bf16"}), 0) << Output();
  EXPECT_EQ(ExactMetrics(out), ExactMetrics(root_ / "calm"));
  EXPECT_EQ(Run(root_ / "none", {"--set", "train.precision=fp16"}), 2);
  EXPECT_THAT(Output(), HasSubstr("train.precision must be one of fp32, bf16"));
}

TEST_F(Resume, AFullDiskIsNamedAndTheRunGoesOnLater) {
  WriteConfig(AllArchitectures()[0], 25);
  ASSERT_EQ(Run(root_ / "calm"), 0) << Output();
  const fs::path out = root_ / "full";
  const pid_t child = Start(out, {}, [] {
    // No file beyond 4 KB: checkpoints do not fit.
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
  });
  EXPECT_EQ(Wait(child), 1);
  for (const auto& entry : fs::directory_iterator(out)) {
    EXPECT_THAT(entry.path().filename().string(),
                testing::MatchesRegex("LOCK|metrics.csv|samples.jsonl"));
  }
  ASSERT_EQ(Run(out, {"--resume"}), 0) << Output();
  EXPECT_EQ(ExactMetrics(out), ExactMetrics(root_ / "calm"));
}

TEST_F(Resume, ADamagedCheckpointIsRefusedByName) {
  WriteConfig(AllArchitectures()[0], 8);
  const fs::path out = root_ / "run";
  ASSERT_EQ(Run(out), 0) << Output();
  std::ofstream(out / "last/training/optimiser.safetensors", std::ios::app) << "x";
  EXPECT_EQ(Run(out, {"--resume"}), 1);
  EXPECT_THAT(Output(), HasSubstr("optimiser.safetensors"));
}

TEST_F(Resume, ARunOfSecondsTakesThemAndStaysOver) {
  WriteConfig(AllArchitectures()[0], 8);
  const fs::path out = root_ / "run";
  ASSERT_EQ(Run(out, {"--set", "train.seconds=2"}), 0) << Output();
  // "done: N updates in X s": what the run itself took, without starting the process.
  const std::string output = Output();
  const size_t at = output.find(" updates in ", output.find("done: "));
  ASSERT_NE(at, std::string::npos) << output;
  EXPECT_GE(std::stod(output.substr(at + sizeof(" updates in ") - 1)), 2);
  const std::string metrics = ExactMetrics(out);
  ASSERT_EQ(Run(out, {"--set", "train.seconds=2", "--resume"}), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr(", 100% of the time"));
  EXPECT_EQ(ExactMetrics(out), metrics);
}

}  // namespace
}  // namespace mnemon
