// SPDX-License-Identifier: MIT
// fit on a terminal: one line that is rewritten, and what stays above it.
#include "train/run/live_line.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/fakes/pseudo_terminal.h"
#include "tests/train/run/trainer_run.h"

namespace mnemon {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kCtrlC[] = "\x03";

// What a terminal of `columns` shows of `bytes`: rows without trailing spaces, the last
// one that of the cursor. Lines that are longer go on in the next row.
std::vector<std::string> ScreenOf(const std::string& bytes, size_t columns) {
  std::vector<std::string> rows = {""};
  size_t column = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes.compare(i, 3, "\033[K") == 0) {
      rows.back().resize(column);
      i += 2;
    } else if (bytes[i] == '\r') {
      column = 0;
    } else if (bytes[i] == '\n') {
      rows.emplace_back();
    } else {
      EXPECT_GE(bytes[i], ' ') << bytes.substr(i, 8);
      if (column == columns) {
        rows.emplace_back();
        column = 0;
      }
      rows.back().resize(std::max(rows.back().size(), column + 1), ' ');
      rows.back()[column++] = bytes[i];
    }
  }
  for (std::string& row : rows) row.erase(row.find_last_not_of(' ') + 1);
  return rows;
}

// The states of the line, in turn.
std::vector<std::string> LinesOf(const std::string& bytes) {
  std::vector<std::string> lines;
  for (size_t at = 0; (at = bytes.find('\r', at)) != bytes.npos;) {
    ++at;
    const size_t end = bytes.find_first_of("\r\n\033", at);
    const std::string line = bytes.substr(at, end - at);
    if (line.starts_with("[") || line.find('%') < 5) lines.push_back(line);
  }
  return lines;
}

class LiveLineOfFit : public TrainerRun {
 protected:
  void SetUp() override {
    TrainerRun::SetUp();
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
  }

  std::vector<std::string> Command(int steps, const std::vector<std::string>& set) {
    WriteConfig(AllArchitectures()[0], steps);
    std::vector<std::string> argv = {MNEMON_TRAIN_BINARY,
                                     "fit",
                                     "--config",
                                     root_ / "run.toml",
                                     "--out",
                                     root_ / "run",
                                     "--threads",
                                     "1",
                                     "--set",
                                     "sample.tokens=0",
                                     "train.checkpoint_every=1000000"};
    argv.insert(argv.end(), set.begin(), set.end());
    return argv;
  }
};

TEST(FitLine, LeavesOutTheLargestRankFirst) {
  const std::vector<LinePart> parts = {{"aaaa", 2}, {"bb", 0}, {"cc", 1}};
  EXPECT_EQ(FitLine(parts, 12), "aaaa  bb  cc");
  EXPECT_EQ(FitLine(parts, 11), "bb  cc");
  EXPECT_EQ(FitLine(parts, 5), "bb");
  EXPECT_EQ(FitLine(parts, 1), "b");
}

TEST_F(LiveLineOfFit, IsOneLineAndTheValidationsStayAboveIt) {
  PseudoTerminal terminal(Command(600, {"train.validate_every=300"}), 160);
  EXPECT_EQ(terminal.Wait(), 0) << terminal.unread();
  const std::vector<std::string> rows = ScreenOf(terminal.unread(), 160);
  // What is trained, two validations, the last state, what came of it, the cursor.
  ASSERT_THAT(rows, SizeIs(6)) << terminal.unread();
  EXPECT_THAT(rows[0], StartsWith("causal: "));
  EXPECT_THAT(rows[1], AllOf(StartsWith("step 300/600  loss "),
                             HasSubstr("  validation "), HasSubstr(" tokens/s")));
  EXPECT_THAT(rows[2], StartsWith("step 600/600  loss "));
  EXPECT_THAT(rows[3],
              AllOf(StartsWith("[########################]  100%  step 600/600  loss "),
                    HasSubstr("  validation "), HasSubstr("  eta 0:00")));
  EXPECT_THAT(rows[4], StartsWith("done: 600 updates"));
  EXPECT_EQ(rows[5], "");
}

TEST_F(LiveLineOfFit, FollowsTheWidthOfTheTerminal) {
  PseudoTerminal terminal(Command(100000, {"train.validate_every=100000"}), 100);
  terminal.Until("tokens/s");
  const std::vector<std::string> wide = LinesOf(terminal.Until("\033[K"));
  terminal.Resize(31);
  // What was under way when the size changed.
  terminal.Until("\033[K");
  terminal.Until("\033[K");
  std::string narrow;
  for (int i = 0; i < 4; ++i) narrow += terminal.Until("\033[K");
  EXPECT_THAT(LinesOf(narrow), SizeIs(4)) << narrow;
  for (const std::string& line : LinesOf(narrow)) {
    EXPECT_LT(line.size(), 31u) << line;
    EXPECT_THAT(line, HasSubstr("%  loss "));
  }
  terminal.Resize(3);
  terminal.Until("\033[K");
  terminal.Until("\033[K");
  EXPECT_THAT(LinesOf(terminal.Until("\033[K")), Each(SizeIs(testing::Le(7u))));
}

TEST_F(LiveLineOfFit, CtrlCLeavesTheStateAndAFreshLine) {
  PseudoTerminal terminal(Command(1000000, {}), 160);
  const std::string before = terminal.Until("tokens/s  eta ");
  terminal.Type(kCtrlC);
  EXPECT_EQ(terminal.Wait(), 0);
  const std::vector<std::string> rows = ScreenOf(before + terminal.unread(), 1000);
  ASSERT_GE(rows.size(), 5u);
  EXPECT_EQ(rows.back(), "");
  EXPECT_THAT(rows[rows.size() - 2], HasSubstr(" --resume"));
  EXPECT_THAT(rows[rows.size() - 3], StartsWith("stopped at update "));
  EXPECT_THAT(rows[rows.size() - 4], StartsWith("["));
  EXPECT_THAT(rows, testing::Contains("saving; once more to stop at once"));
}

TEST_F(LiveLineOfFit, AnErrorStandsOnALineOfItsOwn) {
  PseudoTerminal terminal(Command(1000000, {"train.checkpoint_every=200"}), 160);
  const std::string before = terminal.Until("tokens/s  eta ");
  fs::remove_all(root_ / "run");  // no checkpoint can be written any more
  EXPECT_EQ(terminal.Wait(), 1) << terminal.unread();
  const std::vector<std::string> rows = ScreenOf(before + terminal.unread(), 1000);
  ASSERT_GE(rows.size(), 3u);
  EXPECT_EQ(rows.back(), "");
  EXPECT_THAT(rows[rows.size() - 2], StartsWith("mnemon-train: "));
  EXPECT_THAT(rows[rows.size() - 3], StartsWith("["));
}

// As into a file.
TEST_F(LiveLineOfFit, PlainLinesWhereALineCannotBeRewritten) {
  for (const auto& [name, value] :
       {std::pair("TERM", "dumb"), std::pair("TERM", ""), std::pair("NO_COLOR", "1")}) {
    setenv("TERM", "xterm", 1);
    setenv(name, value, 1);
    fs::remove_all(root_ / "run");
    PseudoTerminal terminal(Command(30, {}), 160);
    EXPECT_EQ(terminal.Wait(), 0) << terminal.unread();
    const std::vector<std::string> rows = ScreenOf(terminal.unread(), 160);
    EXPECT_THAT(terminal.unread(), Not(HasSubstr("\033"))) << name << value;
    // Every third update, every tenth, what is trained and what came of it, the cursor.
    EXPECT_THAT(rows, SizeIs(10 + 2 + 2 + 1)) << terminal.unread();
    EXPECT_THAT(rows[1], StartsWith("step 3/30  loss ")) << name << value;
  }
}

TEST_F(LiveLineOfFit, AFileGetsPlainLines) {
  WriteConfig(AllArchitectures()[0], 30);
  ASSERT_EQ(Run(root_ / "run", {"--set", "sample.tokens=0"}), 0);
  EXPECT_THAT(Output(), AllOf(Not(HasSubstr("\033")), Not(HasSubstr("\r"))));
  EXPECT_THAT(Output(),
              testing::ContainsRegex("\nstep 3/30  loss [0-9.]+  validation -  lr "
                                     "[-0-9e.]+  [0-9]+ tokens/s  grad [0-9.]+  eta "
                                     "[0-9:]+\n"));
}

}  // namespace
}  // namespace mnemon
