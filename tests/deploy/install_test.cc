// SPDX-License-Identifier: MIT
// cmake --install into an empty folder, and what comes to lie there.
#include <unistd.h>

#include <filesystem>
#include <set>

#include "base/process/child_process.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/patience.h"

namespace mnemon {
namespace {

using std::chrono::seconds;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::UnorderedElementsAre;

class Install : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "/mnemon-install-" + std::to_string(getpid());
    prefix_ = dir_ + "/prefix";
    std::filesystem::create_directories(prefix_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string Run(const std::vector<std::string>& words, int expected = 0) const {
    ChildProcess child(dir_, words);
    EXPECT_EQ(child.Wait(kPatience), expected) << child.out() << child.err();
    return child.out();
  }

  // All files, relative to the prefix.
  std::set<std::string> Files() const {
    std::set<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(prefix_)) {
      if (!entry.is_regular_file()) continue;
      files.insert(std::filesystem::relative(entry.path(), prefix_));
    }
    return files;
  }

  std::string dir_;
  std::string prefix_;
};

TEST_F(Install, WholeAndRunning) {
  Run({MNEMON_CMAKE, "--install", MNEMON_BINARY_DIR, "--prefix", prefix_});
  const std::set<std::string> files = Files();
  for (const char* binary : {"mnemon", "mnemon-bench", "mnemon-scenarios",
                             "mnemon-server", "mnemon-train"}) {
    EXPECT_THAT(files, Contains(StrCat("bin/", binary)));
    EXPECT_THAT(files, Contains(StrCat("share/bash-completion/completions/", binary)));
    EXPECT_THAT(files,
                Contains(StrCat("share/fish/vendor_completions.d/", binary, ".fish")));
    EXPECT_THAT(files,
                Contains(StrCat("share/zsh/site-functions/_", binary, "_completion")));
    EXPECT_THAT(files, Contains(StrCat("share/man/man1/", binary, ".1.gz")));
    EXPECT_THAT(Run({StrCat(prefix_, "/bin/", binary), "--version"}),
                MatchesRegex(StrCat(
                    binary, " [0-9.]+ \\(commit [^,]+, [A-Za-z]+ [0-9.].*\\)\n")));
    EXPECT_THAT(Run({StrCat(prefix_, "/bin/", binary), "--help"}),
                HasSubstr(StrCat("Examples:\n  ", binary)));
    Run({"/bin/bash", "-n",
         StrCat(prefix_, "/share/bash-completion/completions/", binary)});
  }
  for (const char* file :
       {"lib/systemd/system/mnemon.service", "share/mnemon/prometheus/prometheus.yml",
        "share/mnemon/prometheus/alerts.yml",
        "share/mnemon/grafana/dashboards/mnemon.json",
        "share/mnemon/configs/causal-small.toml", "share/mnemon/convert-labml",
        "lib/mnemon/libmnemon_sequence.so"}) {
    EXPECT_THAT(files, Contains(file));
  }
  // An installed configuration is enough to start a training from.
  Run({prefix_ + "/bin/mnemon-train", "fit", "--config",
       prefix_ + "/share/mnemon/configs/causal-small.toml", "--set",
       "data.text=book.txt", "--print-config"});
}

TEST_F(Install, OneComponent) {
  Run({MNEMON_CMAKE, "--install", MNEMON_BINARY_DIR, "--prefix", prefix_, "--component",
       "mnemon"});
  EXPECT_THAT(Files(), UnorderedElementsAre(
                           "bin/mnemon", "share/bash-completion/completions/mnemon",
                           "share/fish/vendor_completions.d/mnemon.fish",
                           "share/man/man1/mnemon.1.gz",
                           "share/zsh/site-functions/_mnemon_completion"));
}

}  // namespace
}  // namespace mnemon
