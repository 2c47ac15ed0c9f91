// SPDX-License-Identifier: MIT
// Every binary and every command of it: help with examples first, and a completion for
// bash that offers all that the help names.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/child_process.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::MatchesRegex;

class Commands : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "/mnemon-commands-" + std::to_string(getpid());
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // Standard output of the binary, which must end with 0.
  std::string Run(std::vector<std::string> words) const {
    words.insert(words.begin(), StrCat(MNEMON_BINARY_DIR, "/bin/", GetParam()));
    ChildProcess child(dir_, words);
    EXPECT_EQ(child.Wait(), 0) << StrJoin(words, " ") << child.err();
    return child.out();
  }

  // What bash offers behind `words` and a space.
  std::set<std::string> Offered(std::vector<std::string> words) const {
    std::string function = "_" + GetParam();
    std::replace(function.begin(), function.end(), '-', '_');
    words.insert(words.begin(), GetParam());
    const std::string script =
        StrCat("source ", dir_, "/completion; COMP_WORDS=(", StrJoin(words, " "),
               " ''); COMP_CWORD=", words.size(), "; ", function,
               "; printf '%s\n' \"${COMPREPLY[@]}\"");
    ChildProcess bash(dir_, {"/bin/bash", "--norc", "-c", script});
    EXPECT_EQ(bash.Wait(), 0) << bash.err();
    std::istringstream lines(bash.out());
    std::set<std::string> offered;
    for (std::string line; std::getline(lines, line);) offered.insert(line);
    return offered;
  }

  // This command and those below it.
  void Check(const std::vector<std::string>& words) const {
    std::vector<std::string> help_words = words;
    help_words.push_back("--help");
    const std::string help = Run(help_words);
    const std::string what = StrCat(GetParam(), " ", StrJoin(words, " "));
    const size_t examples = help.find("Examples:\n  " + GetParam());
    ASSERT_NE(examples, std::string::npos) << what << "\n" << help;
    EXPECT_LT(examples, help.find("Options:")) << what;
    EXPECT_THAT(help, HasSubstr("Exit codes:"));

    // In the list of options and of commands a name stands at the start of its line.
    std::set<std::string> flags, commands;
    std::istringstream lines(help);
    bool below = false;
    static const std::regex flag("^  (?:-[a-z],)?(--[a-z][a-z-]*)\\b.*");
    static const std::regex command("^  ([a-z][a-z-]*)  .*");
    for (std::string line; std::getline(lines, line);) {
      if (line == "Subcommands:") below = true;
      std::smatch match;
      if (std::regex_match(line, match, flag)) flags.insert(match[1]);
      if (below && std::regex_match(line, match, command)) commands.insert(match[1]);
    }
    EXPECT_GE(flags.size(), 2u) << help;
    const std::set<std::string> offered = Offered(words);
    EXPECT_THAT(offered, IsSupersetOf(flags)) << what;
    EXPECT_THAT(offered, IsSupersetOf(commands)) << what;
    for (const std::string& name : commands) {
      std::vector<std::string> deeper = words;
      deeper.push_back(name);
      Check(deeper);
    }
  }

  std::string dir_;
};

TEST_P(Commands, HelpHasExamplesFirstAndCompletionKnowsItAll) {
  std::ofstream(dir_ + "/completion") << Run({"--bash-completion"});
  Check({});
}

TEST_P(Commands, VersionNamesCommitAndLibraries) {
  EXPECT_THAT(
      Run({"--version"}),
      MatchesRegex(GetParam() + " [0-9.]+ \\(commit [^,]+, [A-Za-z]+ [0-9.].*\\)\n"));
}

INSTANTIATE_TEST_SUITE_P(All, Commands,
                         ::testing::Values("mnemon", "mnemon-bench", "mnemon-server",
                                           "mnemon-train"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace mnemon
