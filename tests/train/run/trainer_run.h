// SPDX-License-Identifier: MIT
// Runs of the real trainer on a small text.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace mnemon {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

inline std::string Content(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

// metrics.csv without the two columns of time, in which no two runs are equal.
inline std::string ExactMetrics(const fs::path& run) {
  std::istringstream rows(Content(run / "metrics.csv"));
  std::string exact, row;
  while (std::getline(rows, row)) {
    for (int i = 0; i < 2; ++i) row.resize(std::min(row.size(), row.rfind(',')));
    exact += row + "\n";
  }
  return exact;
}

struct Architecture {
  std::string name;
  std::string model;  // lines of [model]
  std::string data;   // lines of [data]
};

inline const std::vector<Architecture>& AllArchitectures() {
  static const auto* all = new std::vector<Architecture>{
      {"causal", "position_kind = \"sinusoidal\"", "jitter = true"},
      {"fast_weights", "nu = 1", "loader = \"sequential\""},
      {"transformer_xl", "position_kind = \"relative\"\nmem_len = 8\npositions = 64",
       "loader = \"sequential\""},
      {"feedback", "position_kind = \"relative\"\npositions = 32",
       "loader = \"sequential\"\ncurriculum = \"2:5 4:9\""},
      {"feedback_shared", "position_kind = \"relative\"\npositions = 32",
       "jitter = true"},
  };
  return *all;
}

class TrainerRun : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            ("trainer_" + std::to_string(getpid()) + "_" +
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

  // Starts the trainer with its output in out.txt. `before` runs in the child, its
  // output being there already.
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
    return StartProgram(std::move(arguments), before);
  }
  // The same of any program.
  pid_t StartProgram(
      std::vector<std::string> arguments, const std::function<void()>& before = [] {}) {
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

}  // namespace mnemon
