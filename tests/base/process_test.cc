// SPDX-License-Identifier: MIT
#include "base/process.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <limits>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(Process, FlushesDenormalsInThisAndNewThreads) {
  InitProcess();
  EXPECT_TRUE(DenormalsFlushed());
  volatile float tiny = std::numeric_limits<float>::min();
  volatile float half = tiny / 2;
  EXPECT_EQ(half, 0.0f);
  bool inherited = false;
  std::thread([&] { inherited = DenormalsFlushed(); }).join();
  EXPECT_TRUE(inherited);
}

TEST(Process, RaisesTheDescriptorLimitAndIgnoresBrokenPipes) {
  rlimit files;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  rlimit lower = {.rlim_cur = 64, .rlim_max = files.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
  InitProcess();
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_EQ(files.rlim_cur, files.rlim_max);

  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(write(ends[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  close(ends[1]);
}

TEST(Process, SignalWaiterReceivesBothSignalsWithOtherThreadsAround) {
  // Like those that libraries start before main: its signals are not blocked.
  std::atomic<bool> done = false;
  std::thread bystander([&] { done.wait(false); });
  SignalWaiter waiter;
  EXPECT_EQ(waiter.WaitFor(0), 0);
  kill(getpid(), SIGTERM);
  EXPECT_EQ(waiter.WaitFor(10000), SIGTERM);
  kill(getpid(), SIGINT);
  EXPECT_EQ(waiter.Wait(), SIGINT);
  done = true;
  done.notify_all();
  bystander.join();
}

TEST(Process, VersionNamesCommitAndLibraries) {
  std::string text = VersionText("mnemon-x", "gRPC 9");
  EXPECT_THAT(text, testing::MatchesRegex("mnemon-x [0-9.]+ \\(commit .+, gRPC 9\\)"));
  EXPECT_THAT(VersionText("mnemon-x", ""),
              testing::MatchesRegex(".*\\(commit [^,]+\\)"));
}

}  // namespace
}  // namespace mnemon
