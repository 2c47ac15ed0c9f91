// SPDX-License-Identifier: MIT
// Every binary and every command of it: help with examples first, and completions for
// bash, zsh and fish that offer all that the help names.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "base/process/child_process.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::Contains;
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

  // What the shell offers after `words` and a space.
  std::set<std::string> Offered(const std::string& shell,
                                std::vector<std::string> words) const {
    words.insert(words.begin(), GetParam());
    const std::string typed = StrJoin(words, " ");
    std::string script;
    if (shell == "fish") {
      // Flags are offered only after a dash.
      script = StrCat("source ", dir_, "/fish; complete -C '", typed,
                      " '; complete -C '", typed, " --'");
    } else {
      std::string function = "_" + GetParam();
      std::replace(function.begin(), function.end(), '-', '_');
      // As zsh calls functions that were written for bash.
      script = StrCat("source ", dir_, "/bash; ",
                      shell == "zsh" ? "emulate sh; setopt braceexpand; " : "",
                      "COMP_WORDS=(", typed, " ''); COMP_CWORD=", words.size(), "; ",
                      function, "; printf '%s\n' \"${COMPREPLY[@]}\"");
    }
    const char* alone = shell == "bash"  ? "--norc"
                        : shell == "zsh" ? "--no-rcs"
                                         : "--no-config";
    ChildProcess child(dir_, {"/usr/bin/" + shell, alone, "-c", script});
    EXPECT_EQ(child.Wait(), 0) << child.err();
    EXPECT_EQ(child.err(), "");
    std::istringstream lines(child.out());
    std::set<std::string> offered;
    // fish adds a tabulator and the description.
    for (std::string line; std::getline(lines, line);) {
      offered.insert(line.substr(0, line.find('\t')));
    }
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

    // Lists of options and of commands have a name at the start of each line.
    std::set<std::string> flags, commands;
    std::istringstream lines(help);
    bool below = false;
    static const std::regex flag("^  (?:-[a-z],)?(--[a-z][a-z0-9-]*)\\b.*");
    static const std::regex command("^  ([a-z][a-z-]*)  .*");
    for (std::string line; std::getline(lines, line);) {
      if (line == "Subcommands:") below = true;
      std::smatch match;
      if (std::regex_match(line, match, flag)) flags.insert(match[1]);
      if (below && std::regex_match(line, match, command)) commands.insert(match[1]);
    }
    EXPECT_GE(flags.size(), 2u) << help;
    for (const std::string& shell : shells_) {
      const std::set<std::string> offered = Offered(shell, words);
      EXPECT_THAT(offered, IsSupersetOf(flags)) << shell << ": " << what;
      EXPECT_THAT(offered, IsSupersetOf(commands)) << shell << ": " << what;
    }
    for (const std::string& name : commands) {
      std::vector<std::string> deeper = words;
      deeper.push_back(name);
      Check(deeper);
    }
  }

  std::string dir_;
  std::vector<std::string> shells_;  // those that are installed
};

TEST_P(Commands, HelpHasExamplesFirstAndCompletionsKnowItAll) {
  std::ofstream(dir_ + "/bash") << Run({"--bash-completion"});
  std::ofstream(dir_ + "/fish") << Run({"--fish-completion"});
  for (const char* shell : {"bash", "zsh", "fish"}) {
    if (std::filesystem::exists(StrCat("/usr/bin/", shell))) shells_.push_back(shell);
  }
  ASSERT_THAT(shells_, Contains("bash"));
  Check({});
}

TEST_P(Commands, VersionNamesCommitAndLibraries) {
  EXPECT_THAT(
      Run({"--version"}),
      MatchesRegex(GetParam() + " [0-9.]+ \\(commit [^,]+, [A-Za-z]+ [0-9.].*\\)\n"));
}

INSTANTIATE_TEST_SUITE_P(All, Commands,
                         ::testing::Values("mnemon", "mnemon-bench", "mnemon-scenarios",
                                           "mnemon-server", "mnemon-train"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace mnemon
