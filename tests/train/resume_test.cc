// SPDX-License-Identifier: MIT
// The real binary: undisturbed, killed at random moments and resumed, interrupted, out
// of disk. A run and its resumed twin must write the same metrics.csv to the byte.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

std::string Content(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

struct Architecture {
  std::string name;
  std::string model;  // lines of [model]
  std::string data;   // lines of [data]
};

const std::vector<Architecture>& AllArchitectures() {
  static const auto* all = new std::vector<Architecture>{
      {"causal", "position_kind = \"sinusoidal\"", "jitter = true"},
      {"fast_weights", "nu = 1", "loader = \"sequential\""},
      {"transformer_xl", "position_kind = \"relative\"\nmem_len = 8\npositions = 64",
       "loader = \"sequential\""},
      {"feedback", "position_kind = \"relative\"\npositions = 32",
       "loader = \"sequential\""},
      {"feedback_shared", "position_kind = \"relative\"\npositions = 32",
       "jitter = true"},
  };
  return *all;
}

class Resume : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            ("resume_" + std::to_string(getpid()) + "_" +
             testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(root_);
    std::ofstream text(root_ / "text.txt");
    std::mt19937 random(5);
    const char* words[] = {"remember ", "forget ", "the ", "sea, ", "a ", "stone.\n"};
    for (int i = 0; i < 500; ++i) text << words[random() % 6];
  }
  void TearDown() override { fs::remove_all(root_); }

  void WriteConfig(const Architecture& architecture, int steps) {
    std::ofstream(root_ / "run.toml")
        << "[model]\narchitecture = \"" << architecture.name
        << "\"\nd_model = 8\nheads = 2\nlayers = 2\nd_ff = 16\ndropout = 0.1\n"
        << architecture.model << "\n[data]\ntext = \"" << (root_ / "text.txt").string()
        << "\"\nseq_len = 8\nbatch = 4\n"
        << architecture.data << "\n[schedule]\nkind = \"cosine\"\nwarmup = 5\n"
        << "[train]\nsteps = " << steps
        << "\nlog_every = 3\nvalidate_every = 10\nvalidation_batches = 2\n"
        << "checkpoint_every = 4\n[sample]\ntokens = 3\n";
  }

  // Starts the trainer with its output in out.txt. `before` runs in the child.
  pid_t Start(
      const fs::path& out, const std::vector<std::string>& more,
      const std::function<void()>& before = [] {}) {
    std::vector<std::string> arguments = {MNEMON_TRAIN_BINARY,
                                          "fit",
                                          "--config",
                                          root_ / "run.toml",
                                          "--out",
                                          out,
                                          "--threads",
                                          std::to_string(threads_)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const std::string log = root_ / "out.txt";
    const pid_t child = fork();
    if (child == 0) {
      const int file = open(log.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
      dup2(file, STDOUT_FILENO);
      dup2(file, STDERR_FILENO);
      before();
      execv(argv[0], argv.data());
      _exit(127);
    }
    return child;
  }
  // The exit code, or minus the signal.
  static int Wait(pid_t child) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  int Run(const fs::path& out, const std::vector<std::string>& more = {}) {
    return Wait(Start(out, more));
  }
  std::string Output() const { return Content(root_ / "out.txt"); }

  // True once `child` has written checkpoint `last`; false when it ended before.
  static bool WaitForCheckpoint(pid_t child, const fs::path& out) {
    while (!fs::is_symlink(out / "last")) {
      siginfo_t info = {};
      waitid(P_PID, child, &info, WEXITED | WNOHANG | WNOWAIT);
      if (info.si_pid == child) return false;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
  }

  fs::path root_;
  int threads_ = 2;
};

// With another number of threads each time.
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
    for (int round = 0; round < 4 || (kills == 0 && round < 12); ++round) {
      threads_ = 1 + round % 4;
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
    EXPECT_EQ(Content(killed / "metrics.csv"), Content(calm / "metrics.csv"))
        << architecture.name;
    EXPECT_EQ(Content(killed / "last/model.safetensors"),
              Content(calm / "last/model.safetensors"))
        << architecture.name;
    EXPECT_EQ(fs::read_symlink(killed / "best"), fs::read_symlink(calm / "best"));
    for (const auto& entry : fs::directory_iterator(killed)) {
      EXPECT_THAT(entry.path().filename().string(),
                  testing::MatchesRegex("step-.*|last|best|metrics.csv"));
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
  EXPECT_EQ(Content(out / "metrics.csv"), Content(root_ / "calm/metrics.csv"));
  ASSERT_EQ(Run(out, {"--resume"}), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("resumed at update 150 of 150"));
  EXPECT_EQ(Content(out / "metrics.csv"), Content(root_ / "calm/metrics.csv"));
}

TEST_F(Resume, ARunKeepsItsPrecision) {
  WriteConfig(AllArchitectures()[2], 25);
  ASSERT_EQ(Run(root_ / "fp32"), 0) << Output();
  const std::vector<std::string> bf16 = {"--set", "train.precision=bf16"};
  ASSERT_EQ(Run(root_ / "calm", bf16), 0) << Output();
  EXPECT_NE(Content(root_ / "calm/metrics.csv"), Content(root_ / "fp32/metrics.csv"));
  const fs::path out = root_ / "interrupted";
  const pid_t child = Start(out, bf16);
  ASSERT_TRUE(WaitForCheckpoint(child, out)) << Output();
  kill(child, SIGKILL);
  Wait(child);
  EXPECT_EQ(Run(out, {"--resume"}), 1);
  EXPECT_THAT(Output(), HasSubstr("train.precision was bf16 and is now fp32"));
  ASSERT_EQ(Run(out, {"--resume", "--set", "train.precision=bf16"}), 0) << Output();
  EXPECT_EQ(Content(out / "metrics.csv"), Content(root_ / "calm/metrics.csv"));
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
    EXPECT_EQ(entry.path().filename(), "metrics.csv");
  }
  ASSERT_EQ(Run(out, {"--resume"}), 0) << Output();
  EXPECT_EQ(Content(out / "metrics.csv"), Content(root_ / "calm/metrics.csv"));
}

TEST_F(Resume, ADamagedCheckpointIsRefusedByName) {
  WriteConfig(AllArchitectures()[0], 8);
  const fs::path out = root_ / "run";
  ASSERT_EQ(Run(out), 0) << Output();
  std::ofstream(out / "last/training/optimiser.safetensors", std::ios::app) << "x";
  EXPECT_EQ(Run(out, {"--resume"}), 1);
  EXPECT_THAT(Output(), HasSubstr("optimiser.safetensors"));
}

TEST_F(Resume, ARunOfSecondsEndsInTimeAndStaysOver) {
  WriteConfig(AllArchitectures()[0], 8);
  const fs::path out = root_ / "run";
  ASSERT_EQ(Run(out, {"--set", "train.seconds=2"}), 0) << Output();
  // "done: N updates in X s": what the run itself took, without starting the process.
  const std::string output = Output();
  const size_t at = output.find(" updates in ", output.find("done: "));
  ASSERT_NE(at, std::string::npos) << output;
  EXPECT_GE(std::stod(output.substr(at + sizeof(" updates in ") - 1)), 2);
  EXPECT_LT(std::stod(output.substr(at + sizeof(" updates in ") - 1)), 2 * 1.15 + 0.5);
  const std::string metrics = Content(out / "metrics.csv");
  ASSERT_EQ(Run(out, {"--set", "train.seconds=2", "--resume"}), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr(", 100% of the time"));
  EXPECT_EQ(Content(out / "metrics.csv"), metrics);
}

}  // namespace
}  // namespace mnemon
