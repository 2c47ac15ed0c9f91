// SPDX-License-Identifier: MIT
// --help of every command of every program tells what holds without each flag.
#include <cstdio>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

std::string Help(const std::string& command) {
  const std::string line = MNEMON_BINARY_DIR "/bin/" + command + " --help";
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
// form "  --flag TEXT=value (Env:...)", and the text on the next line or behind it.
void CheckCommand(const std::string& command) {
  const std::string help = Help(command);
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
    EXPECT_TRUE(std::regex_search(entry, told)) << command << ":" << entry;
  }
  for (const std::string& line : Section(help, "Subcommands:")) {
    if (line.rfind("   ", 0) == 0) continue;
    std::istringstream words(line);
    std::string name;
    words >> name;
    CheckCommand(command + " " + name);
  }
}

TEST(Help, TellsEveryDefault) {
  for (const std::string program :
       {"mnemon", "mnemon-server", "mnemon-train", "mnemon-bench", "mnemon-load"}) {
    CheckCommand(program);
  }
}

}  // namespace
}  // namespace mnemon
