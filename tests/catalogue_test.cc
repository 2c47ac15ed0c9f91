// SPDX-License-Identifier: MIT
// docs/reliability.md names a test for every item of the catalogue, and the tests
// exist.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

// Items of the catalogue that have tables with numbers.
constexpr struct { int first, last; } kItems[] = {{1, 87}, {123, 144}};

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// `file` declares TEST(suite, name), TEST_F or TEST_P.
bool Declares(const std::string& file, const std::string& suite,
              const std::string& name) {
  const std::regex declaration("TEST(_F|_P)?\\(" + suite + ",\\s*" + name + "\\)");
  return std::regex_search(file, declaration);
}

// What is wrong with the third column of one row: "`file` `Suite.Name`, `Suite.Name`:
// `case`, `case`; `file` ...".
std::vector<std::string> Faults(const std::string& tests, const std::string& root) {
  std::vector<std::string> faults;
  const std::regex quoted("`([^`]+)`"), test("([A-Za-z0-9]+)\\.([A-Za-z0-9]+)"),
      path("[a-z_/]+_test\\.cc"), word("[a-z0-9_]+");
  std::string file;
  int named = 0;
  for (std::sregex_iterator at(tests.begin(), tests.end(), quoted), end; at != end;
       ++at) {
    const std::string text = (*at)[1];
    std::smatch parts;
    if (std::regex_match(text, path)) {
      file = ReadText(root + "/tests/" + text);
      if (file.empty()) faults.push_back("no file " + text);
    } else if (std::regex_match(text, parts, test)) {
      ++named;
      if (!Declares(file, parts[1], parts[2])) faults.push_back("no test " + text);
    } else if (named > 0 && std::regex_match(text, word)) {
      if (file.find('"' + text + '"') == file.npos) faults.push_back("no case " + text);
    }
  }
  if (named == 0) faults.push_back("names no test");
  return faults;
}

TEST(Catalogue, EveryItemNamesATestThatExists) {
  const std::string root = MNEMON_SOURCE_DIR;
  std::ifstream page(root + "/docs/reliability.md");
  ASSERT_TRUE(page.is_open());
  const std::regex row("\\| ([0-9]+) \\| (.*) \\| (.*) \\|");
  std::vector<int> items, wanted;
  for (const auto& range : kItems) {
    for (int item = range.first; item <= range.last; ++item) wanted.push_back(item);
  }
  for (std::string line; std::getline(page, line);) {
    std::smatch cells;
    if (!std::regex_match(line, cells, row)) continue;
    items.push_back(std::stoi(cells[1]));
    EXPECT_THAT(Faults(cells[3], root), testing::IsEmpty()) << "item " << items.back();
  }
  EXPECT_EQ(items, wanted);
}

TEST(Catalogue, OtherTablesNameTestsThatExist) {
  const std::string root = MNEMON_SOURCE_DIR;
  std::ifstream page(root + "/docs/reliability.md");
  ASSERT_TRUE(page.is_open());
  const std::regex row("\\| ([^|]+) \\| ([^|]+) \\|");
  int rows = 0;
  for (std::string line; std::getline(page, line);) {
    std::smatch cells;
    if (!std::regex_match(line, cells, row) || cells[2] == "test") continue;
    ++rows;
    EXPECT_THAT(Faults(cells[2], root), testing::IsEmpty()) << line;
  }
  EXPECT_GT(rows, 20);
}

TEST(Catalogue, FaultsAreFound) {
  const std::string root = MNEMON_SOURCE_DIR;
  const auto faults = [&](const std::string& tests) { return Faults(tests, root); };
  const std::string file = "`catalogue_test.cc` ";
  EXPECT_THAT(faults(file + "`Catalogue.FaultsAreFound`"), testing::IsEmpty());
  EXPECT_THAT(faults("Not yet: later"), testing::ElementsAre("names no test"));
  EXPECT_THAT(faults(""), testing::ElementsAre("names no test"));
  EXPECT_THAT(faults(file), testing::ElementsAre("names no test"));
  EXPECT_THAT(faults(file + "`Catalogue.Absent`"),
              testing::ElementsAre("no test Catalogue.Absent"));
  EXPECT_THAT(faults("`absent_test.cc` `Catalogue.FaultsAreFound`"),
              testing::ElementsAre("no file absent_test.cc",
                                   "no test Catalogue.FaultsAreFound"));
  EXPECT_THAT(faults(file + "`Catalogue.FaultsAreFound`: `no_such_" + "case`"),
              testing::ElementsAre("no case no_such_case"));
}

}  // namespace
}  // namespace mnemon
