// SPDX-License-Identifier: MIT
#include "base/rfc3339.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(ParseRfc3339, ReadsTimes) {
  const struct {
    const char* text;
    Instant time;
  } cases[] = {
      {"1970-01-01T00:00:00Z", {0, 0}},
      {"1970-01-01t00:00:00z", {0, 0}},
      {"1970-01-01T00:00:01.5Z", {1, 500'000'000}},
      {"1970-01-01T00:00:00.000000001Z", {0, 1}},
      {"1969-12-31T23:59:59.75Z", {-1, 750'000'000}},
      {"1970-01-01T01:00:00+01:00", {0, 0}},
      {"1969-12-31T18:30:00-05:30", {0, 0}},
      {"2000-02-29T00:00:00Z", {951'782'400, 0}},
      {"2026-03-01T12:30:00+00:00", {1'772'368'200, 0}},
      {"9999-12-31T23:59:59.999999999Z", {253'402'300'799, 999'999'999}},
      {"0001-01-01T00:00:00Z", {-62'135'596'800, 0}},
  };
  for (const auto& c : cases) {
    const auto time = ParseRfc3339(c.text);
    ASSERT_TRUE(time.has_value()) << c.text;
    EXPECT_EQ(time->seconds, c.time.seconds) << c.text;
    EXPECT_EQ(time->nanos, c.time.nanos) << c.text;
  }
}

TEST(ParseRfc3339, RefusesAllElse) {
  const std::string good = "2026-03-01T12:30:00.25+01:00";
  ASSERT_TRUE(ParseRfc3339(good));
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(ParseRfc3339(good.substr(0, i))) << i;
    for (const char wrong : {'x', '\0', ' ', '\xff'}) {
      std::string text = good;
      text[i] = wrong;
      EXPECT_FALSE(ParseRfc3339(text)) << i;
    }
  }
  for (const char* text : {"",
                           "2026-03-01",
                           "2026-03-01T12:30:00",
                           "2026-03-01 12:30:00Z",
                           " 2026-03-01T12:30:00Z",
                           "2026-03-01T12:30:00Z ",
                           "2026-13-01T00:00:00Z",
                           "2026-00-01T00:00:00Z",
                           "2026-02-29T00:00:00Z",
                           "2026-03-00T00:00:00Z",
                           "2026-03-01T24:00:00Z",
                           "2026-03-01T00:60:00Z",
                           "2026-03-01T00:00:60Z",
                           "2026-03-01T00:00:00.Z",
                           "2026-03-01T00:00:00.1234567890Z",
                           "2026-03-01T00:00:00+24:00",
                           "2026-03-01T00:00:00+00:60",
                           "2026-03-01T00:00:00+0000",
                           "26-03-01T00:00:00Z",
                           "+2026-03-01T00:00:00Z"}) {
    EXPECT_FALSE(ParseRfc3339(text)) << text;
  }
}

TEST(Instant, OfAMomentBeforeAndAfter1970) {
  using std::chrono::nanoseconds;
  const std::chrono::system_clock::time_point epoch;
  EXPECT_EQ(InstantOf(epoch + nanoseconds(1'000'000'001)), (Instant{1, 1}));
  EXPECT_EQ(InstantOf(epoch - nanoseconds(1)), (Instant{-1, 999'999'999}));
  EXPECT_LT(InstantOf(epoch - nanoseconds(1)), InstantOf(epoch));
}

}  // namespace
}  // namespace mnemon
