// SPDX-License-Identifier: MIT
#include "base/log.h"

#include <chrono>
#include <limits>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/captured_log.h"

namespace mnemon {
namespace {

TEST(Log, OneLinePerCallWithTimeLevelAndText) {
  const std::string line = CaptureLog([] { LogWarning("careful {} %s"); });
  EXPECT_THAT(line,
              testing::MatchesRegex(
                  "[0-9]+-[0-9]+-[0-9]+T[0-9:.]+[+-][0-9:]+ warning careful .* %s\n"));
}

TEST(Log, InputCannotForgeALine) {
  const std::string line =
      CaptureLog([] { LogInfo("name\n2030-01-01T00:00:00 error forged\r\x1b[2J"); });
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_THAT(line, testing::HasSubstr(
                        "name\\x0a2030-01-01T00:00:00 error forged\\x0d\\x1b[2J"));
}

TEST(Log, LevelsBelowTheSetOneAreDropped) {
  const std::string lines = CaptureLog([] {
    Log(LogLevel::kDebug, "quiet");
    SetLogLevel(LogLevel::kDebug);
    Log(LogLevel::kDebug, "loud");
    SetLogLevel(LogLevel::kInfo);
  });
  EXPECT_THAT(lines, testing::Not(testing::HasSubstr("quiet")));
  EXPECT_THAT(lines, testing::HasSubstr("loud"));
}

TEST(LogEvent, QuotesWhatIsNotPlain) {
  EXPECT_THAT(CaptureLog([] {
                LogEvent(LogLevel::kInfo, "quotes",
                         {{"a", "plain-1.0_x:/"},
                          {"b", "two words"},
                          {"c", ""},
                          {"d", "\"forged=1\\\nevent=x"}});
              }),
              testing::HasSubstr("info event=quotes a=plain-1.0_x:/ b=\"two words\" "
                                 "c=\"\" d=\"\\\"forged=1\\\\\\x0aevent=x\"\n"));
}

TEST(LogEvent, CutsLongValues) {
  const std::string lines = CaptureLog([] {
    LogEvent(LogLevel::kInfo, "long", {{"a", std::string(1 << 20, ' ')}});
    LogEvent(LogLevel::kInfo, "long", {{"a", std::string(1 << 20, 'a')}});
  });
  EXPECT_LT(lines.size(), 1200u);
}

TEST(LogEvent, WritesNumbersAsNumbers) {
  EXPECT_THAT(
      CaptureLog([] {
        LogEvent(LogLevel::kInfo, "numbers", {{"a", -7}, {"b", 1.0 / 3}, {"c", "0x"}});
      }),
      testing::HasSubstr("event=numbers a=-7 b=0.333 c=0x\n"));
}

// The lines that `write` logs as JSON.
template <class Write>
std::vector<nlohmann::json> JsonLines(Write write) {
  SetLogFormat(LogFormat::kJson);
  std::istringstream lines(CaptureLog(write));
  SetLogFormat(LogFormat::kText);
  std::vector<nlohmann::json> parsed;
  for (std::string line; std::getline(lines, line);) {
    for (const unsigned char c : line) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << line;
    parsed.push_back(nlohmann::json::parse(line, nullptr, false));
    EXPECT_TRUE(parsed.back().is_object()) << line;
  }
  return parsed;
}

TEST(LogJson, EachLineIsAnObjectWhateverTheTextHolds) {
  const std::string texts[] = {"plain", "h\xc3\xa9", "\"}{\n\r\x1b[2J\x7f\\",
                               std::string("a\0b", 3), "%v {} %s"};
  const auto lines = JsonLines([&] {
    for (const std::string& text : texts) LogWarning(text);
    LogError("not UTF-8: \xff\xc3");
  });
  ASSERT_EQ(lines.size(), 6u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(lines[i]["message"], texts[i]);
    EXPECT_EQ(lines[i]["level"], "warning");
    EXPECT_THAT(lines[i]["time"].get<std::string>(),
                testing::MatchesRegex("[0-9]+-[0-9]+-[0-9]+T[0-9:.]+[+-][0-9:]+"));
  }
  EXPECT_EQ(lines[5]["message"], "not UTF-8: \xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(lines[5]["level"], "error");
}

TEST(LogJson, EventsHaveTypedMembers) {
  const auto lines = JsonLines([] {
    LogEvent(LogLevel::kInfo, "typed",
             {{"text", "two \"words\"\n"},
              {"count", int64_t{1} << 40},
              {"ms", 1.5},
              {"bad", std::numeric_limits<double>::quiet_NaN()},
              {"long", std::string(1000, '\xc3')}});
  });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["event"], "typed");
  EXPECT_EQ(lines[0]["text"], "two \"words\"\n");
  EXPECT_EQ(lines[0]["count"], int64_t{1} << 40);
  EXPECT_EQ(lines[0]["ms"], 1.5);
  EXPECT_TRUE(lines[0]["bad"].is_null());
  EXPECT_LT(lines[0]["long"].get<std::string>().size(), 2000u);
}

TEST(LogJson, LevelsHoldToo) {
  SetLogLevel(LogLevel::kError);
  EXPECT_EQ(JsonLines([] { LogWarning("quiet"); }).size(), 0u);
  SetLogLevel(LogLevel::kInfo);
  EXPECT_EQ(JsonLines([] { LogInfo("loud"); }).size(), 1u);
}

TEST(LogNames, AreThoseOfTheFlags) {
  EXPECT_EQ(ParseLogLevel("debug"), LogLevel::kDebug);
  EXPECT_EQ(ParseLogLevel("info"), LogLevel::kInfo);
  EXPECT_EQ(ParseLogLevel("warning"), LogLevel::kWarning);
  EXPECT_EQ(ParseLogLevel("error"), LogLevel::kError);
  EXPECT_EQ(ParseLogLevel("loud"), std::nullopt);
  EXPECT_EQ(ParseLogFormat("text"), LogFormat::kText);
  EXPECT_EQ(ParseLogFormat("json"), LogFormat::kJson);
  EXPECT_EQ(ParseLogFormat("xml"), std::nullopt);
}

TEST(LogEvent, IsBoundedPerEvent) {
  const std::string lines = CaptureLog([] {
    for (int i = 0; i < 100000; ++i) LogEvent(LogLevel::kInfo, "flood", {});
    LogEvent(LogLevel::kInfo, "other", {});
  });
  EXPECT_LT(std::count(lines.begin(), lines.end(), '\n'), 500);
  EXPECT_THAT(lines, testing::HasSubstr("event=other"));
}

TEST(LogEvent, SaysHowManyWereSuppressed) {
  // Far beyond the burst, and long enough for the rate to let some more pass.
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(250);
  EXPECT_THAT(CaptureLog([end] {
                while (std::chrono::steady_clock::now() < end) {
                  LogEvent(LogLevel::kInfo, "counted", {});
                }
              }),
              testing::ContainsRegex("event=counted suppressed=[1-9]"));
}

TEST(EscapeControls, KeepsTextAndEscapesTerminalControls) {
  EXPECT_EQ(EscapeControls("h\xc3\xa9 \xe2\x82\xac"), "h\xc3\xa9 \xe2\x82\xac");
  EXPECT_EQ(EscapeControls(std::string("a\0b\x7f", 4)), "a\\x00b\\x7f");
  EXPECT_EQ(EscapeControls("\xc2\x9b"), "\\x9b");
  EXPECT_EQ(EscapeControls("a\xff\xc3(\xe2\x82"), "a\\xff\\xc3(\\xe2\\x82");
}

}  // namespace
}  // namespace mnemon
