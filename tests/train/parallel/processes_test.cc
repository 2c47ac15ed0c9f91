// SPDX-License-Identifier: MIT
// Runs in several processes of the real binary, which meet on the loopback interface:
// their bits, and what becomes of a run when one of them ends, stops or is another.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cstdlib>
#include <regex>

#include "gmock/gmock.h"
#include "tests/train/run/trainer_run.h"

namespace mnemon {
namespace {

using std::chrono::seconds;
using ::testing::Each;
using ::testing::HasSubstr;

// One that nobody listens at.
int FreePort() {
  const int file = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(file, generic, size), 0);
  EXPECT_EQ(getsockname(file, generic, &size), 0);
  close(file);
  return ntohs(address.sin_port);
}

class Processes : public TrainerRun {
 protected:
  Processes() { threads_ = 1; }

  struct Options {
    std::vector<std::string> arguments = {};
    int odd = -1;  // the rank that has `odd_arguments` as well
    std::vector<std::string> odd_arguments = {};
    std::function<void(int rank)> before = [](int) {};  // in the child
    int missing = -1;                                   // the rank that is not started
  };

  std::vector<pid_t> StartAll(int count, const fs::path& out, const Options& options) {
    const int port = FreePort();
    std::vector<pid_t> children;
    for (int rank = 0; rank < count; ++rank) {
      if (rank == options.missing) continue;
      std::vector<std::string> arguments = options.arguments;
      if (rank == options.odd) {
        arguments.insert(arguments.end(), options.odd_arguments.begin(),
                         options.odd_arguments.end());
      }
      children.push_back(Start(out, arguments, [&, rank] {
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
        setenv("RANK", std::to_string(rank).c_str(), 1);
        setenv("WORLD_SIZE", std::to_string(count).c_str(), 1);
        const int file = open(LogOf(rank).c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
        dup2(file, STDOUT_FILENO);
        dup2(file, STDERR_FILENO);
        options.before(rank);
      }));
    }
    return children;
  }

  std::vector<int> WaitAll(const std::vector<pid_t>& children) {
    std::vector<int> codes;
    for (const pid_t child : children) codes.push_back(Wait(child));
    return codes;
  }

  std::vector<int> RunAll(int count, const fs::path& out) {
    return RunAll(count, out, {});
  }
  std::vector<int> RunAll(int count, const fs::path& out, const Options& options) {
    return WaitAll(StartAll(count, out, options));
  }

  fs::path LogOf(int rank) const {
    return root_ / ("process-" + std::to_string(rank) + ".txt");
  }
  std::string Log(int rank) const { return Content(LogOf(rank)); }
  std::string Logs(int count) const {
    std::string all;
    for (int rank = 0; rank < count; ++rank) all += Log(rank);
    return all;
  }

  void ExpectSame(const fs::path& run, const fs::path& other) const {
    EXPECT_EQ(ExactMetrics(run), ExactMetrics(other)) << run;
    for (const char* file : {"samples.jsonl", "last/model.safetensors",
                             "last/training/optimiser.safetensors"}) {
      EXPECT_EQ(Content(run / file), Content(other / file)) << run << " " << file;
    }
    EXPECT_EQ(fs::read_symlink(run / "best"), fs::read_symlink(other / "best"));
    EXPECT_EQ(Content(run / "last/training/carry.safetensors"),
              Content(other / "last/training/carry.safetensors"));
  }
};

TEST_F(Processes, HaveTheBitsOfOne) {
  int count = 4;
  for (const Architecture& architecture : AllArchitectures()) {
    WriteConfig(architecture, 13);
    const fs::path calm = root_ / (architecture.name + "-calm");
    ASSERT_EQ(Run(calm), 0) << Output();
    count = 6 - count;
    const fs::path run = root_ / architecture.name;
    ASSERT_THAT(RunAll(count, run), Each(0)) << Logs(count);
    ExpectSame(run, calm);
    EXPECT_THAT(Log(0), HasSubstr(std::to_string(count) + " processes of 1 threads"));
    EXPECT_EQ(Log(1), "") << "one process speaks";
  }
}

// Any of them is stopped, with and without a carried memory; the others end by
// themselves. The run continues with another number of processes.
TEST_F(Processes, KilledAtRandomMomentsTheRunGoesOn) {
  std::mt19937 random(std::random_device{}());
  using Kills = std::vector<std::pair<int, int>>;  // processes, and which is killed
  for (const auto& [index, kills] :
       {std::pair(0, Kills{{4, 2}, {2, 0}}), std::pair(3, Kills{{4, 0}, {2, 1}})}) {
    const Architecture& architecture = AllArchitectures()[index];
    WriteConfig(architecture, 120);
    const fs::path calm = root_ / (architecture.name + "-calm");
    ASSERT_EQ(Run(calm), 0) << Output();
    const fs::path killed = root_ / (architecture.name + "-killed");
    for (const auto& [count, victim] : kills) {
      const fs::path before =
          fs::exists(killed / "last") ? fs::read_symlink(killed / "last") : fs::path();
      const auto children = StartAll(count, killed, {.arguments = {"--resume"}});
      while (!fs::is_symlink(killed / "last") ||
             fs::read_symlink(killed / "last") == before) {
        std::this_thread::sleep_for(milliseconds(1));
      }
      std::this_thread::sleep_for(milliseconds(random() % 30));
      kill(children[victim], SIGKILL);
      const std::vector<int> codes = WaitAll(children);
      for (int rank = 0; rank < count; ++rank) {
        if (rank == victim) {
          EXPECT_EQ(codes[rank], -SIGKILL);
          continue;
        }
        EXPECT_EQ(codes[rank], 1) << Log(rank);
        EXPECT_THAT(Log(rank), HasSubstr("contact with another process of the run is "
                                         "lost (this is process " +
                                         std::to_string(rank)));
        EXPECT_THAT(Log(rank), HasSubstr("--resume"));
      }
      if (victim != 0) {
        EXPECT_THAT(Log(0), HasSubstr("the last good checkpoint is "));
      }
    }
    ASSERT_EQ(Run(killed, {"--resume"}), 0) << Output();
    ExpectSame(killed, calm);
  }
}

TEST_F(Processes, OneThatHangsEndsTheRun) {
  WriteConfig(AllArchitectures()[0], 100000);
  const fs::path out = root_ / "run";
  const auto children = StartAll(
      2, out,
      {.arguments = {"--peer-timeout", "8", "--set", "train.checkpoint_every=50",
                     "train.validate_every=1000"}});
  ASSERT_TRUE(WaitForCheckpoint(children[0], out)) << Log(0);
  kill(children[1], SIGSTOP);
  EXPECT_EQ(Wait(children[0]), 1);
  const std::string log = Log(0);
  EXPECT_THAT(log, HasSubstr("contact with another process of the run is lost"));
  // No update is lost: this process has all that a checkpoint takes.
  std::smatch updates;
  ASSERT_TRUE(std::regex_search(
      log, updates,
      std::regex(
          "ended after update ([0-9]+):.*last good checkpoint is .*step-([0-9]+)")))
      << log;
  EXPECT_EQ(updates[1], updates[2]);
  kill(children[1], SIGCONT);
  EXPECT_EQ(Wait(children[1]), 1);
}

TEST_F(Processes, CtrlCAtOneStopsAll) {
  WriteConfig(AllArchitectures()[3], 100000);
  const fs::path out = root_ / "run";
  const auto children = StartAll(2, out, {});
  ASSERT_TRUE(WaitForCheckpoint(children[0], out)) << Log(0);
  kill(children[1], SIGINT);
  EXPECT_THAT(WaitAll(children), Each(0)) << Logs(2);
  EXPECT_THAT(Log(0), HasSubstr("stopped at update"));
  EXPECT_EQ(Log(1), "\nsaving; once more to stop at once\n");
}

TEST_F(Processes, AFullDiskEndsAll) {
  WriteConfig(AllArchitectures()[0], 25);
  const fs::path out = root_ / "full";
  const auto codes = RunAll(2, out, {.before = [](int rank) {
                              if (rank > 0) return;
                              signal(SIGXFSZ, SIG_IGN);
                              const rlimit limit = {4096, 4096};
                              setrlimit(RLIMIT_FSIZE, &limit);
                            }});
  EXPECT_THAT(codes, Each(1)) << Logs(2);
  EXPECT_THAT(Log(1), HasSubstr("contact with another process of the run is lost"));
  ASSERT_THAT(RunAll(2, out, {.arguments = {"--resume"}}), Each(0)) << Logs(2);
  ASSERT_EQ(Run(root_ / "calm"), 0) << Output();
  ExpectSame(out, root_ / "calm");
}

TEST_F(Processes, ThatRunSomethingElseAreNamed) {
  WriteConfig(AllArchitectures()[0], 8);
  const auto codes = RunAll(2, root_ / "run",
                            {.odd = 1, .odd_arguments = {"--set", "optimiser.lr=0.5"}});
  EXPECT_THAT(codes, Each(1));
  EXPECT_THAT(
      Log(1),
      HasSubstr("optimiser.lr is 0.5 here, while in process 0 optimiser.lr is"));
  EXPECT_THAT(Log(0), HasSubstr("process 1 runs something else than process 0"));
  EXPECT_FALSE(fs::exists(root_ / "run"));
}

TEST_F(Processes, ThatDoNotComeAreWaitedForInVain) {
  WriteConfig(AllArchitectures()[0], 8);
  for (const int missing : {0, 1}) {
    const auto codes = RunAll(
        2, root_ / "run", {.arguments = {"--peer-timeout", "1"}, .missing = missing});
    EXPECT_THAT(codes, Each(1));
    EXPECT_THAT(Log(1 - missing), HasSubstr("could not meet the others at 127.0.0.1:"));
    EXPECT_THAT(Log(1 - missing), HasSubstr("waiting for up to 1 s"));
  }
}

TEST_F(Processes, NumbersThatDoNotFitAreAnErrorOfUsage) {
  WriteConfig(AllArchitectures()[0], 8);
  EXPECT_THAT(RunAll(3, root_ / "run"), Each(2));
  EXPECT_THAT(Log(0), HasSubstr("WORLD_SIZE is 3: it takes a power of two"));
  EXPECT_THAT(RunAll(4, root_ / "run", {.arguments = {"--set", "train.shards=2"}}),
              Each(2));
  EXPECT_THAT(Log(3), HasSubstr("at most train.shards (2) and data.batch (4)"));
  EXPECT_FALSE(fs::exists(root_ / "run"));
}

// Each decides by the clock of the first.
TEST_F(Processes, ARunOfSecondsEndsInAll) {
  WriteConfig(AllArchitectures()[1], 8);
  const fs::path out = root_ / "run";
  ASSERT_THAT(RunAll(2, out, {.arguments = {"--set", "train.seconds=2"}}), Each(0))
      << Logs(2);
  EXPECT_THAT(Log(0), HasSubstr("done: "));
}

}  // namespace
}  // namespace mnemon
