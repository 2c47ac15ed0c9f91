// SPDX-License-Identifier: MIT
// The help of every command of every program tells what holds without each flag.
#include <cstdio>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

// --help of a program and of all its commands, by one start of it.
std::string HelpOfAll(const std::string& program) {
  const std::string line = MNEMON_BINARY_DIR "/bin/" + program + " --help-all";
  FILE* const pipe = popen(line.c_str(), "r");
  std::string text;
  for (int c; (c = fgetc(pipe)) != EOF;) text.push_back(static_cast<char>(c));
  EXPECT_EQ(pclose(pipe), 0) << line;
  return text;
}

// The lines between `title` and the next empty one.
std::vector<std::string> Section(const std::string& help, const std::string& title) {
  std::istringstream lines(help);
  std::string line;
  while (std::getline(lines, line) && line != title) {
  }
  std::vector<std::string> section;
  while (std::getline(lines, line) && !line.empty()) section.push_back(line);
  return section;
}

// Flags and arguments that take a value, without one that is told. In the library's
// form "  --flag TEXT=value (Env:...)", and the text on the next line or after it.
void CheckHelp(const std::string& help) {
  std::vector<std::string> entries;
  for (const char* const title : {"Options:", "Positionals:"}) {
    for (const std::string& line : Section(help, title)) {
      if (line.rfind("   ", 0) == 0) {
        entries.back() += line;
      } else {
        entries.push_back(line);
      }
    }
  }
  EXPECT_FALSE(entries.empty()) << help;
  const std::regex takes_value("^  \\S+ (TEXT|INT|UINT|FLOAT)"),
      told("^[^()]*(=|REQUIRED)|; default: ");
  for (const std::string& entry : entries) {
    if (!std::regex_search(entry, takes_value)) continue;
    EXPECT_TRUE(std::regex_search(entry, told)) << help << "\nwith:" << entry;
  }
}

TEST(Help, TellsEveryDefault) {
  size_t commands = 0;
  for (const std::string program : {"mnemon", "mnemon-server", "mnemon-train",
                                    "mnemon-bench", "mnemon-scenarios"}) {
    const std::string help = HelpOfAll(program);
    const std::string head = "== " + program;
    ASSERT_EQ(help.rfind(head, 0), 0) << help;
    for (size_t begin = 0, end = 0; begin != help.npos; begin = end) {
      end = help.find("\n" + head, begin + 1);
      CheckHelp(help.substr(begin, end - begin));
      ++commands;
    }
  }
  EXPECT_GT(commands, 50);
}

}  // namespace
}  // namespace mnemon
