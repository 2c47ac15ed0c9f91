// SPDX-License-Identifier: MIT
// The end of a process whose shutdown hangs, by the limit and by further signals.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "base/log.h"
#include "base/process/process.h"
#include "gtest/gtest.h"
#include "server/shutdown_limit.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;

// A process whose work does not end, however often it is told to. The thread has an
// hour to see it, so that it does on a machine that has no time for it.
[[noreturn]] void Hang(milliseconds grace, int signals_sent) {
  InitProcess();
  SignalWaiter signals;
  ShutdownLimit limit(signals, {.last_lines = std::chrono::hours(1),
                                .last_resort = std::chrono::hours(1)});
  limit.Begin(grace, {.hurry = [] { LogInfo("event=hurried"); },
                      .calls = [] { return 3; },
                      .waiting = [] { return std::string("flush 2"); }});
  // Raised in this thread, which takes one before it raises the next: none is lost.
  for (int i = 0; i < signals_sent; ++i) raise(SIGTERM);
  while (true) pause();
}

class ShutdownLimitDeath : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

constexpr char kCutOff[] = "event=shutdown_cut_off calls=3 waiting=\"?flush 2";

TEST_F(ShutdownLimitDeath, WhatHangsIsCutOffAfterTheGrace) {
  EXPECT_EXIT(Hang(milliseconds(0), 0),
              testing::ExitedWithCode(ShutdownLimit::kExitCode), kCutOff);
}

TEST_F(ShutdownLimitDeath, ASecondSignalHurriesAndEnds) {
  EXPECT_EXIT(Hang(std::chrono::hours(1), 1),
              testing::ExitedWithCode(ShutdownLimit::kExitCode), "event=hurried");
}

TEST_F(ShutdownLimitDeath, AThirdSignalEndsAtOnce) {
  EXPECT_EXIT(Hang(std::chrono::hours(1), 2),
              testing::ExitedWithCode(ShutdownLimit::kExitCode), kCutOff);
}

// A process in which even the thread of the limit hangs.
[[noreturn]] void HangAll() {
  InitProcess();
  SignalWaiter signals;
  ShutdownLimit limit(signals);
  limit.Begin(milliseconds(0), {.calls = [] {
                while (true) pause();
                return 0;
              }});
  while (true) pause();
}

TEST_F(ShutdownLimitDeath, TheKernelEndsWhatCannotEndItself) {
  EXPECT_EXIT(HangAll(), testing::KilledBySignal(SIGALRM), "");
}

[[noreturn]] void EndInTime() {
  InitProcess();
  SignalWaiter signals;
  {
    ShutdownLimit limit(signals);
    limit.Begin(std::chrono::hours(1), {});
  }
  std::exit(7);
}

TEST_F(ShutdownLimitDeath, LeavesAProcessThatEndsInTimeAlone) {
  EXPECT_EXIT(EndInTime(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace mnemon
