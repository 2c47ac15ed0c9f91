// SPDX-License-Identifier: MIT
// The log while standard error is not read.
#include "base/log_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/captured_log.h"
#include "tests/fakes/patience.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using SteadyClock = std::chrono::steady_clock;

// A full pipe in the place of standard error; the previous one is restored at the end.
class Unread {
 public:
  explicit Unread(int flags = 0) {
    EXPECT_TRUE(FlushLog());
    EXPECT_EQ(pipe2(pipe_, O_CLOEXEC | O_NONBLOCK), 0);
    fcntl(pipe_[1], F_SETPIPE_SZ, 4096);
    const std::string page(4096, '\n');
    while (write(pipe_[1], page.data(), page.size()) > 0) {
    }
    fcntl(pipe_[1], F_SETFL, flags);
    saved_ = dup(STDERR_FILENO);
    dup2(pipe_[1], STDERR_FILENO);
  }
  ~Unread() {
    Read();
    dup2(saved_, STDERR_FILENO);
    for (const int fd : {saved_, pipe_[0], pipe_[1]}) close(fd);
  }

  // Reads until the log has nothing to write.
  std::string Read() {
    std::string all;
    char some[4096];
    do {
      for (ssize_t n; (n = read(pipe_[0], some, sizeof(some))) > 0;) {
        all.append(some, static_cast<size_t>(n));
      }
    } while (!FlushLog(milliseconds(0)) || read(pipe_[0], some, 0) > 0);
    for (ssize_t n; (n = read(pipe_[0], some, sizeof(some))) > 0;) {
      all.append(some, static_cast<size_t>(n));
    }
    return all;
  }

 private:
  int pipe_[2] = {-1, -1};
  int saved_ = -1;
};

TEST(LogOutput, NobodyWaitsForAStandardErrorThatIsNotRead) {
  for (const int flags : {0, O_NONBLOCK}) {
    const LogCounts before = log_counts();
    Unread unread(flags);
    LogInfo("line 0");
    while (log_counts().blocked < milliseconds(1)) std::this_thread::yield();
    const auto begin = SteadyClock::now();
    for (int i = 1; i < 10'000; ++i) LogInfo("line " + std::to_string(i));
    EXPECT_LT(SteadyClock::now() - begin, kPatience);
    const LogCounts now = log_counts();
    EXPECT_GT(now.lost - before.lost, 9'000);
    EXPECT_GT(now.waiting, 0);
    EXPECT_EQ(now.written, before.written);
    EXPECT_FALSE(FlushLog(milliseconds(50)));
    EXPECT_GE(log_counts().blocked, milliseconds(50));
    EXPECT_GT(log_counts().lost_meanwhile, 9'000);
    EXPECT_LT(SteadyClock::now() - begin, kPatience);

    // The newest lines are kept, and what is missing is told before them.
    std::istringstream lines(unread.Read());
    int64_t kept = 0, told = 0, last = -1;
    constexpr std::string_view kLost = " warning event=log_lines_lost lines=";
    constexpr std::string_view kKept = " info line ";
    for (std::string line; std::getline(lines, line);) {
      if (const size_t at = line.find(kLost); at != line.npos) {
        told += std::stoll(line.substr(at + kLost.size()));
      } else if (const size_t at = line.find(kKept); at != line.npos) {
        const int64_t line_number = std::stoll(line.substr(at + kKept.size()));
        EXPECT_GT(line_number, last);
        last = line_number;
        ++kept;
      }
    }
    EXPECT_EQ(last, 9'999);
    EXPECT_EQ(kept + told, 10'000);
    const LogCounts after = log_counts();
    EXPECT_EQ(after.waiting, 0);
    EXPECT_EQ(after.blocked, milliseconds(0));
    EXPECT_EQ(after.written - before.written, kept);
    EXPECT_EQ(after.lost - before.lost, told);
  }
}

TEST(LogOutput, AStandardErrorThatFailsLosesLinesAlone) {
  const LogCounts before = log_counts();
  const int saved = dup(STDERR_FILENO);
  close(STDERR_FILENO);
  for (int i = 0; i < 10; ++i) LogInfo("nowhere");
  EXPECT_TRUE(FlushLog());
  dup2(saved, STDERR_FILENO);
  close(saved);
  EXPECT_EQ(log_counts().lost - before.lost, 10);
  EXPECT_THAT(CaptureLog([] { LogInfo("here again"); }),
              testing::AllOf(HasSubstr("event=log_lines_lost lines=10\n"),
                             HasSubstr(" here again\n")));
}

TEST(LogOutput, LinesOfManyThreadsAreWhole) {
  const std::string lines = CaptureLog([] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 50; ++i) LogInfo(std::string(200, 'x'));
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  std::istringstream in(lines);
  int count = 0;
  for (std::string line; std::getline(in, line); ++count) {
    EXPECT_TRUE(line.ends_with(" info " + std::string(200, 'x'))) << line;
  }
  EXPECT_EQ(count, 200);
}

}  // namespace
}  // namespace mnemon
