// SPDX-License-Identifier: MIT
#include "model/decoder/decoder.h"

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

constexpr int64_t kVocab = 10;

struct Fixture {
  Fixture() {
    const StateSpec spec{
        {{.name = "rows", .shape = {1}, .growth = Growth::kAppend, .capacity = 100}}};
    arena = *StateArena::Create(spec, {.slots = 2});
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(arena->Acquire().ok());
    EXPECT_TRUE(arena->Reserve(1, 70).ok());
    arena->Advance(1, 70);
  }
  absl::Status Check(const std::vector<Segment>& segments) {
    return CheckSegments(segments, kVocab, *arena);
  }
  std::unique_ptr<StateArena> arena;
};

const std::vector<int32_t>& Zeros() {
  static const auto* zeros = new std::vector<int32_t>(65, 0);
  return *zeros;
}
std::span<const int32_t> ZeroTokens(size_t count) {
  return std::span(Zeros()).first(count);
}

TEST(CheckSegments, TakesWhatIsRight) {
  Fixture f;
  EXPECT_TRUE(f.Check({}).ok());
  EXPECT_TRUE(f.Check({{.slot = 1, .position = 70, .tokens = ZeroTokens(30)},
                       {.slot = 0, .position = 0, .tokens = ZeroTokens(64)}})
                  .ok());
}

TEST(CheckSegments, RefusesWhatIsNot) {
  Fixture f;
  const std::vector<int32_t> negative = {0, -1}, beyond = {10}, huge = {INT32_MAX};
  const std::vector<std::vector<Segment>> bad = {
      {{.slot = 0, .position = 0, .tokens = {}}},
      {{.slot = 0, .position = 0, .tokens = ZeroTokens(65)}},
      {{.slot = 0, .position = 0, .tokens = negative}},
      {{.slot = 0, .position = 0, .tokens = beyond}},
      {{.slot = 0, .position = 0, .tokens = huge}},
      {{.slot = 0, .position = 1, .tokens = ZeroTokens(1)}},
      {{.slot = 0, .position = -1, .tokens = ZeroTokens(1)}},
      {{.slot = 1, .position = 69, .tokens = ZeroTokens(1)}},
      {{.slot = -1, .position = 0, .tokens = ZeroTokens(1)}},
      {{.slot = 2, .position = 0, .tokens = ZeroTokens(1)}},
      {{.slot = 0, .position = 0, .tokens = ZeroTokens(1)},
       {.slot = 1, .position = 70, .tokens = ZeroTokens(1)},
       {.slot = 0, .position = 0, .tokens = ZeroTokens(1)}},
  };
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(f.Check(bad[i]).code(), absl::StatusCode::kInvalidArgument) << i;
  }
  const absl::Status context =
      f.Check({{.slot = 1, .position = 70, .tokens = ZeroTokens(31)}});
  EXPECT_EQ(context.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetErrorDetail(context)->reason, "CONTEXT_LIMIT");
}

TEST(CheckSegments, TakesDrawsOnlyWhereThereAreAny) {
  Fixture f;
  const std::vector<int32_t> drawn = {kDrawn}, later = {0, kDrawn}, unusable = {-2};
  const auto check = [&](const Segment& segment, bool draws) {
    return CheckSegments({&segment, 1}, kVocab, *f.arena, draws).code();
  };
  for (const bool draws : {false, true}) {
    const auto expected =
        draws ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument;
    EXPECT_EQ(check({.tokens = drawn}, draws), expected);
    EXPECT_EQ(check({.tokens = ZeroTokens(3), .draw = true}, draws), expected);
    EXPECT_NE(check({.tokens = later}, draws), absl::StatusCode::kOk);
    EXPECT_NE(check({.tokens = unusable}, draws), absl::StatusCode::kOk);
  }
}

TEST(Errors, AreToldApart) {
  EXPECT_TRUE(IsDeviceLost(DeviceLost()));
  EXPECT_TRUE(IsNonFiniteState(NonFiniteState()));
  EXPECT_FALSE(IsDeviceLost(NonFiniteState()));
  EXPECT_FALSE(IsNonFiniteState(DeviceLost()));
  EXPECT_FALSE(IsDeviceLost(absl::UnavailableError("")));
  EXPECT_FALSE(IsDeviceLost(absl::OkStatus()));
}

TEST(LogitsRows, CountsByMode) {
  EXPECT_EQ(LogitsRows({}), 0);
  const std::vector<Segment> segments = {
      {.tokens = ZeroTokens(7), .logits = LogitsMode::kNone},
      {.tokens = ZeroTokens(7), .logits = LogitsMode::kLast},
      {.tokens = ZeroTokens(7), .logits = LogitsMode::kAll}};
  EXPECT_EQ(LogitsRows(segments), 8);
}

}  // namespace
}  // namespace mnemon
