// SPDX-License-Identifier: MIT
#include "base/log.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(Log, OneLinePerCallWithTimeLevelAndText) {
  testing::internal::CaptureStderr();
  LogWarning("careful {} %s");
  std::string line = testing::internal::GetCapturedStderr();
  EXPECT_THAT(line,
              testing::MatchesRegex(
                  "[0-9]+-[0-9]+-[0-9]+T[0-9:.]+[+-][0-9:]+ warning careful .* %s\n"));
}

TEST(Log, InputCannotForgeALine) {
  testing::internal::CaptureStderr();
  LogInfo("name\n2030-01-01T00:00:00 error forged\r\x1b[2J");
  std::string line = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_THAT(line, testing::HasSubstr(
                        "name\\x0a2030-01-01T00:00:00 error forged\\x0d\\x1b[2J"));
}

TEST(Log, LevelsBelowTheSetOneAreDropped) {
  testing::internal::CaptureStderr();
  Log(LogLevel::kDebug, "quiet");
  SetLogLevel(LogLevel::kDebug);
  Log(LogLevel::kDebug, "loud");
  SetLogLevel(LogLevel::kInfo);
  std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_THAT(lines, testing::Not(testing::HasSubstr("quiet")));
  EXPECT_THAT(lines, testing::HasSubstr("loud"));
}

TEST(LogEvent, QuotesWhatIsNotPlain) {
  testing::internal::CaptureStderr();
  LogEvent(LogLevel::kInfo, "quotes",
           {{"a", "plain-1.0_x:/"},
            {"b", "two words"},
            {"c", ""},
            {"d", "\"forged=1\\\nevent=x"}});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("info event=quotes a=plain-1.0_x:/ b=\"two words\" "
                                 "c=\"\" d=\"\\\"forged=1\\\\\\x0aevent=x\"\n"));
}

TEST(LogEvent, CutsLongValues) {
  testing::internal::CaptureStderr();
  LogEvent(LogLevel::kInfo, "long", {{"a", std::string(1 << 20, ' ')}});
  EXPECT_LT(testing::internal::GetCapturedStderr().size(), 600u);
}

TEST(LogEvent, IsBoundedPerEvent) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 100000; ++i) LogEvent(LogLevel::kInfo, "flood", {});
  LogEvent(LogLevel::kInfo, "other", {});
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_LT(std::count(lines.begin(), lines.end(), '\n'), 500);
  EXPECT_THAT(lines, testing::HasSubstr("event=other"));
}

TEST(EscapeControls, KeepsTextAndEscapesTerminalControls) {
  EXPECT_EQ(EscapeControls("h\xc3\xa9 \xe2\x82\xac"), "h\xc3\xa9 \xe2\x82\xac");
  EXPECT_EQ(EscapeControls(std::string("a\0b\x7f", 4)), "a\\x00b\\x7f");
  EXPECT_EQ(EscapeControls("\xc2\x9b"), "\\x9b");
}

}  // namespace
}  // namespace mnemon
