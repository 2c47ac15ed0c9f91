// SPDX-License-Identifier: MIT
// The attacks of mnemon-scenarios in their short form, judged by what is counted: each
// on a server of its own, which must answer meanwhile and be as before afterwards. Its
// times and speeds are those of `scripts/check wire`.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/process/child_process.h"
#include "base/strings.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

// Limit of many waits, each of which only a hang can exhaust.
constexpr std::chrono::seconds kMost{1500};

class Wire : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::filesystem::temp_directory_path() / StrCat("mnemon-wire-", getpid());
    std::filesystem::create_directories(dir_);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(dir_); }

  // Runs mnemon-scenarios, whose tables say what was missed.
  static void Load(const std::vector<std::string>& words) {
    std::vector<std::string> argv = {MNEMON_SCENARIOS_BINARY};
    argv.insert(argv.end(), words.begin(), words.end());
    argv.insert(argv.end(), {"--quick", "--untimed", "--work", dir_});
    ChildProcess load(dir_, argv);
    EXPECT_EQ(load.Wait(kMost), 0) << load.out() << load.err();
  }

  static std::string dir_;
};

std::string Wire::dir_;

TEST_P(Wire, ServerOutlivesTheAttack) {
  std::string name = GetParam();
  std::replace(name.begin(), name.end(), '_', '-');
  Load({"wire", "--attack", name});
}

INSTANTIATE_TEST_SUITE_P(Attacks, Wire,
                         ::testing::Values("resets", "call_resets", "headers",
                                           "many_headers", "continuations", "pings",
                                           "ping_acks", "settings", "priorities",
                                           "window_updates", "empty_data", "messages",
                                           "prompts", "connections", "descriptors",
                                           "windows", "malformed", "goaway", "all",
                                           "unread_log"),
                         [](const auto& info) { return std::string(info.param); });

using Soak = Wire;

TEST_F(Soak, LeavesNothingBehind) { Load({"soak"}); }

}  // namespace
}  // namespace mnemon
