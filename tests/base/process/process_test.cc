// SPDX-License-Identifier: MIT
#include "base/process/process.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <string>
#include <thread>

#include "base/float_mode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/flushing_float_mode.h"

namespace mnemon {
namespace {

TEST(Process, ThisAndNewThreadsComputeSubnormals) {
  InitProcess();
  EXPECT_TRUE(ComputesSubnormals());
  bool inherited = false;
  std::thread([&] { inherited = ComputesSubnormals(); }).join();
  EXPECT_TRUE(inherited);
}

TEST(IeeeFloatMode, ComputesSubnormalsWhileItLives) {
  const FlushingFloatMode flushing;
  EXPECT_FALSE(ComputesSubnormals());
  {
    const IeeeFloatMode mode;
    EXPECT_TRUE(ComputesSubnormals());
    std::thread([] { EXPECT_TRUE(ComputesSubnormals()); }).join();
    const IeeeFloatMode again;
    EXPECT_TRUE(ComputesSubnormals());
  }
  EXPECT_FALSE(ComputesSubnormals());
}

TEST(IeeeFloatMode, RoundsToNearest) {
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  volatile float one = 1, small = 0x1p-30f;
  {
    const IeeeFloatMode mode;
    volatile float sum = one + small;
    EXPECT_EQ(sum, 1.0f);
  }
  volatile float sum = one + small;
  EXPECT_GT(sum, 1.0f);
  ASSERT_EQ(std::fesetround(FE_TONEAREST), 0);
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

TEST(Process, SignalWaiterReceivesItsSignalsWithOtherThreadsAround) {
  // Like those that libraries start before main: its signals are not blocked.
  std::atomic<bool> done = false;
  std::thread bystander([&] { done.wait(false); });
  signal(SIGHUP, SIG_DFL);  // where the test runs under nohup
  SignalWaiter waiter;
  EXPECT_EQ(waiter.WaitFor(0), 0);
  kill(getpid(), SIGHUP);
  EXPECT_EQ(waiter.WaitFor(10000), SIGHUP);
  kill(getpid(), SIGTERM);
  EXPECT_EQ(waiter.WaitFor(10000), SIGTERM);
  kill(getpid(), SIGINT);
  EXPECT_EQ(waiter.Wait(), SIGINT);
  done = true;
  done.notify_all();
  bystander.join();
}

TEST(Process, TellsTheServiceManager) {
  NotifyServiceManager("READY=1");  // nobody there
  const std::string path = testing::TempDir() + "/notify" + std::to_string(getpid());
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  setenv("NOTIFY_SOCKET", path.c_str(), 1);
  NotifyServiceManager("READY=1");
  setenv("NOTIFY_SOCKET", (path + ".absent").c_str(), 1);
  NotifyServiceManager("LOST=1");
  setenv("NOTIFY_SOCKET", std::string(1000, 'x').c_str(), 1);
  NotifyServiceManager("LOST=1");
  unsetenv("NOTIFY_SOCKET");
  char buffer[64];
  const ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
  ASSERT_GT(got, 0);
  EXPECT_EQ(std::string(buffer, static_cast<size_t>(got)), "READY=1");
  EXPECT_EQ(recv(fd, buffer, sizeof(buffer), 0), -1);
  close(fd);
  unlink(path.c_str());
}

TEST(Process, VersionNamesCommitAndLibraries) {
  std::string text = VersionText("mnemon-x", "gRPC 9");
  EXPECT_THAT(text, testing::MatchesRegex("mnemon-x [0-9.]+ \\(commit .+, gRPC 9\\)"));
  EXPECT_THAT(VersionText("mnemon-x", ""),
              testing::MatchesRegex(".*\\(commit [^,]+\\)"));
}

}  // namespace
}  // namespace mnemon
