// SPDX-License-Identifier: MIT
#include "server/requests/request_check.h"

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr CallLimits kLimits = {
    .vocab = 256, .max_tokens = 100, .max_prompt_tokens = 8};

void ExpectField(const absl::Status& status, const std::string& field) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(GetErrorDetail(status).value_or(ErrorDetail{}).field, field) << status;
}

TEST(CheckSessionId, TakesDnsLikeNames) {
  for (const char* id : {"a", "0", "a-b", "7-", "abc-123"}) {
    EXPECT_TRUE(CheckSessionId(id, "f").ok()) << id;
  }
  EXPECT_TRUE(CheckSessionId(std::string(63, 'a'), "f").ok());
}

TEST(CheckSessionId, RefusesEverythingElse) {
  const std::vector<std::string> bad = {"",
                                        "-a",
                                        "A",
                                        "a b",
                                        "../../x",
                                        "%2e",
                                        "a\n",
                                        std::string("a\0b", 3),
                                        "é",
                                        "a/b",
                                        std::string(64, 'a'),
                                        "a.b",
                                        "a_b",
                                        std::string(1 << 20, 'a')};
  for (const std::string& id : bad) {
    const absl::Status status = CheckSessionId(id, "session");
    ExpectField(status, "session");
    EXPECT_LT(status.message().size(), 400u);
    EXPECT_EQ(std::string(status.message()).find('\n'), std::string::npos);
  }
}

TEST(CheckTtl, PositiveAndBounded) {
  using std::chrono::milliseconds;
  EXPECT_TRUE(CheckTtl(std::nullopt).ok());
  EXPECT_TRUE(CheckTtl(milliseconds(1)).ok());
  for (int64_t bad : {int64_t{0}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    ExpectField(CheckTtl(milliseconds(bad)), "ttl");
  }
}

TEST(CheckCall, MaxTokens) {
  GenerateRequest request;
  for (int32_t good : {0, 1, 100}) {
    request.max_tokens = good;
    EXPECT_TRUE(CheckCall(request, kLimits).ok());
  }
  for (int32_t bad : {-1, 101, INT32_MAX, INT32_MIN}) {
    request.max_tokens = bad;
    ExpectField(CheckCall(request, kLimits), "max_tokens");
  }
}

TEST(CheckCall, StopTokens) {
  GenerateRequest request;
  request.stop_tokens = {0, 255};
  EXPECT_TRUE(CheckCall(request, kLimits).ok());
  for (int32_t bad : {-1, 256, INT32_MAX}) {
    request.stop_tokens = {3, bad};
    ExpectField(CheckCall(request, kLimits), "stop_token_ids[1]");
  }
  request.stop_tokens.assign(100000, 1);
  ExpectField(CheckCall(request, kLimits), "stop_token_ids");
}

TEST(CheckCall, SamplingValues) {
  GenerateRequest request;
  request.sampling.temperature = -1;
  ExpectField(CheckCall(request, kLimits), "temperature");
}

TEST(PromptTokens, TextAndIds) {
  const auto bytes = MakeByteTokenizer();
  EXPECT_THAT(*PromptTokens(std::string("ab"), bytes.get(), kLimits),
              ElementsAre('a', 'b'));
  EXPECT_THAT(*PromptTokens(std::vector<int32_t>{1, 255}, nullptr, kLimits),
              ElementsAre(1, 255));
  EXPECT_TRUE(PromptTokens(std::string(), nullptr, kLimits)->empty());
}

TEST(PromptTokens, NamesIndexAndValueOfABadToken) {
  for (int32_t bad : {-1, 256, INT32_MAX}) {
    const auto tokens = PromptTokens(std::vector<int32_t>{1, bad}, nullptr, kLimits);
    ExpectField(tokens.status(), "prompt[1]");
    EXPECT_THAT(std::string(tokens.status().message()), HasSubstr(std::to_string(bad)));
  }
}

TEST(PromptTokens, TooLong) {
  EXPECT_TRUE(PromptTokens(std::vector<int32_t>(8), nullptr, kLimits).ok());
  ExpectField(PromptTokens(std::vector<int32_t>(9), nullptr, kLimits).status(),
              "prompt");
  const auto bytes = MakeByteTokenizer();
  ExpectField(PromptTokens(std::string(9, 'a'), bytes.get(), kLimits).status(),
              "prompt");
}

TEST(PromptTokens, TextNeedsATokenizer) {
  const auto tokens = PromptTokens(std::string("a"), nullptr, kLimits);
  EXPECT_EQ(tokens.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetErrorDetail(tokens.status())->reason, "NO_TOKENIZER");
}

TEST(PromptTokens, AnUnknownCharacterKeepsItsReason) {
  const auto chars = MakeCharTokenizer("abc");
  ASSERT_TRUE(chars.ok());
  const auto tokens = PromptTokens(std::string("abx"), chars->get(), kLimits);
  ExpectField(tokens.status(), "prompt");
  EXPECT_EQ(GetErrorDetail(tokens.status())->reason, "UNKNOWN_CHARACTER");
}

}  // namespace
}  // namespace mnemon
