// SPDX-License-Identifier: MIT
#include "server/service/access_record.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::MatchesRegex;
using ::testing::SizeIs;

TEST(RequestId, TakesOnlyPlainOnesFromCallers) {
  EXPECT_EQ(ChooseRequestId("a-Z_0.9"), "a-Z_0.9");
  EXPECT_EQ(ChooseRequestId(std::string(64, 'a')), std::string(64, 'a'));
  for (const std::string& sent :
       {std::string(), std::string(65, 'a'), std::string("a b"), std::string("a\nb"),
        std::string("\"x\""), std::string("\xc3\xa9"), std::string(1, '\0')}) {
    EXPECT_THAT(ChooseRequestId(sent), MatchesRegex("[0-9a-f]{16}")) << sent;
  }
}

TEST(RequestId, DrawnOnesDiffer) {
  std::map<std::string, int> seen;
  for (int i = 0; i < 1000; ++i) ++seen[ChooseRequestId("")];
  EXPECT_THAT(seen, SizeIs(1000));
}

TEST(CallProgress, OnlyAnEndIsReplaced) {
  CallProgress open("m");
  open.ReplaceEnd(absl::StatusCode::kAborted, "CALLER_IDLE");
  EXPECT_FALSE(open.TakeRecord().status);
  CallProgress ended("m");
  ended.End(absl::StatusCode::kOk);
  ended.ReplaceEnd(absl::StatusCode::kAborted, "CALLER_IDLE");
  const AccessRecord record = ended.TakeRecord();
  EXPECT_EQ(record.status, absl::StatusCode::kAborted);
  EXPECT_EQ(record.reason, "CALLER_IDLE");
}

}  // namespace
}  // namespace mnemon
