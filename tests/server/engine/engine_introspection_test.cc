// SPDX-License-Identifier: MIT
// Introspection of generated tokens: which step it is of, what it changes (nothing),
// and how much of it waits.
#include <algorithm>
#include <string>
#include <vector>

#include "server/engine/decoder_calls.h"
#include "tests/server/engine/engine_fixture.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kRequestId[] = "00000000-0000-4000-8000-000000000001";

// What one call gave.
struct Told {
  std::vector<int32_t> tokens;
  std::vector<Introspection> introspections;
  absl::Status status;
};

Told Read(Engine& engine, const GenerateRequest& request, size_t at_least = SIZE_MAX) {
  Reader reader(engine, request);
  Told told;
  while (reader.status().ok() && !reader.ended() && told.tokens.size() < at_least) {
    const TokenChunk chunk = reader.Next();
    const bool any = request.introspection.any() || request.resume_after.has_value();
    EXPECT_THAT(chunk.introspections, SizeIs(any ? chunk.tokens.size() : 0));
    told.tokens = Joined(std::move(told.tokens), chunk.tokens);
    told.introspections.insert(told.introspections.end(), chunk.introspections.begin(),
                               chunk.introspections.end());
  }
  if (!reader.status().ok()) {
    told.status = reader.status();
  } else if (reader.ended()) {
    told.status = reader.so_far().status;
  } else {
    reader.stream().Cancel();
  }
  return told;
}

class EngineIntrospection : public testing::TestWithParam<ToyState> {
 protected:
  // For the tokens from `first` on: the step of the token before each.
  std::vector<Introspection> Expected(const std::vector<int32_t>& history, size_t first,
                                      const IntrospectionFields& fields) const {
    const std::vector<Introspection> all =
        ToyIntrospections(GetParam(), history, fields);
    return {all.begin() + static_cast<int64_t>(first) - 1, all.end() - 1};
  }
  GenerateRequest AskAll(std::vector<int32_t> prompt, int32_t max_tokens,
                         const std::string& session = "") const {
    GenerateRequest request = Ask(std::move(prompt), max_tokens, session);
    request.introspection = ToyDecoder(GetParam()).introspection();
    return request;
  }
};

TEST_P(EngineIntrospection, IsThatOfTheStepThatMadeTheLogits) {
  ToyServer server(GetParam());
  for (const int64_t length : {1, 2, 17, 64, 65, 150}) {
    const std::vector<int32_t> prompt = Tokens(length, static_cast<uint32_t>(length));
    const GenerateRequest request = AskAll(prompt, 40);
    const Told told = Read(*server.engine, request);
    ASSERT_TRUE(told.status.ok()) << told.status;
    EXPECT_EQ(told.tokens, server.Run(Ask(prompt, 40)).tokens);
    EXPECT_EQ(told.introspections, Expected(Joined(prompt, told.tokens), prompt.size(),
                                            request.introspection));
  }
}

// Beside calls that do not ask, and after turns that did not.
TEST_P(EngineIntrospection, IsTheSameInAnyTurnBesideOthers) {
  ToyServer server(GetParam());
  server.CreateSession("s");
  std::vector<int32_t> history = Tokens(20, 3);
  history = Joined(history, server.Run(Ask(history, 9, "s")).tokens);
  std::vector<std::unique_ptr<Reader>> others;
  for (uint32_t i = 0; i < 5; ++i) {
    others.push_back(std::make_unique<Reader>(*server.engine, Ask(Tokens(90, i), 60)));
  }
  for (const bool with_prompt : {true, false, true}) {
    const std::vector<int32_t> prompt = with_prompt ? Tokens(70, 8) : Tokens(0, 0);
    history = Joined(history, prompt);
    const GenerateRequest request = AskAll(prompt, 12, "s");
    const Told told = Read(*server.engine, request);
    ASSERT_TRUE(told.status.ok()) << told.status;
    const size_t first = history.size();
    history = Joined(history, told.tokens);
    EXPECT_EQ(told.introspections, Expected(history, first, request.introspection));
    server.AwaitIdle();
  }
  for (const auto& other : others) EXPECT_TRUE(other->Finish().status.ok());
}

TEST_P(EngineIntrospection, OnlyTheFieldsThatAreNamed) {
  ToyServer server(GetParam());
  for (const IntrospectionField& one : kIntrospectionFields) {
    GenerateRequest request = Ask({1, 2}, 5);
    request.introspection.*one.field = true;
    const Told told = Read(*server.engine, request);
    if (ToyDecoder(GetParam()).introspection().*one.field) {
      ASSERT_TRUE(told.status.ok()) << told.status;
      EXPECT_EQ(told.introspections,
                Expected(Joined({1, 2}, told.tokens), 2, request.introspection));
      continue;
    }
    EXPECT_EQ(told.status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ReasonOf(told.status), "NO_INTROSPECTION");
    EXPECT_EQ(FieldOf(told.status), "introspection");
    EXPECT_THAT(std::string(told.status.message()), HasSubstr(std::string(one.name)));
    EXPECT_THAT(std::string(told.status.message()), HasSubstr("hidden_state"));
  }
}

// A stream that goes on has all that the lost one would have brought.
TEST_P(EngineIntrospection, AResumedStreamHasItToo) {
  ToyServer server(GetParam());
  server.CreateSession("s");
  const std::vector<int32_t> prompt = Tokens(30, 4);
  GenerateRequest request = AskAll(prompt, 25, "s");
  request.request_id = kRequestId;
  Told told = Read(*server.engine, request, 7);
  ASSERT_GE(told.tokens.size(), 7u);
  std::vector<int32_t> history = Joined(prompt, told.tokens);
  for (const bool again : {false, true}) {
    GenerateRequest resume = Ask({}, 0, "s");
    resume.request_id = kRequestId;
    resume.resume_after = static_cast<int64_t>(history.size()) - 1;
    const Told rest = Read(*server.engine, resume);
    ASSERT_TRUE(rest.status.ok()) << rest.status;
    const std::vector<int32_t> all = Joined(history, rest.tokens);
    EXPECT_THAT(all, SizeIs(prompt.size() + 25));
    EXPECT_EQ(rest.introspections,
              Expected(all, history.size(), request.introspection));
    // And once more from its beginning, after its end.
    history.resize(prompt.size());
    if (again) break;
  }
}

INSTANTIATE_TEST_SUITE_P(States, EngineIntrospection, testing::ValuesIn(kToyStates),
                         [](const auto& info) { return ToyName(info.param); });

GenerateRequest AskReads(std::vector<int32_t> prompt, int32_t max_tokens) {
  GenerateRequest request = Ask(std::move(prompt), max_tokens);
  request.introspection.memory_reads = true;
  return request;
}

TEST(EngineIntrospectionLimits, OneTokenTakesAtMostOneMebibyte) {
  ToyServer server(ToyState::kAppend, {.max_tokens = 300'000}, 400'000);
  // 32 bytes and 4 for each position.
  constexpr int32_t kMost = (kMaxIntrospectionBytes - 32) / 4;
  const Told refused = Read(*server.engine, AskReads({1, 2}, kMost - 1));
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(refused.status), "introspection");
  EXPECT_THAT(std::string(refused.status.message()), HasSubstr("1048576"));
  GenerateRequest request = AskReads({1, 2}, kMost - 2);
  EXPECT_THAT(Read(*server.engine, request, 3).introspections, SizeIs(testing::Ge(3)));
  // A session that was refused is free.
  server.AwaitIdle();
  server.CreateSession("s");
  request = AskReads({1, 2}, kMost - 1);
  request.session = "s";
  EXPECT_FALSE(Read(*server.engine, request).status.ok());
  EXPECT_EQ(server.Position("s"), 0);
  EXPECT_TRUE(server.Run(Ask({1, 2}, 3, "s")).status.ok());
}

// A window holds no more, however long the call.
TEST(EngineIntrospectionLimits, AWindowIsBoundedByItself) {
  ToyServer server(ToyState::kRing);
  EXPECT_THAT(Read(*server.engine, AskReads({1, 2}, 65'536), 80).introspections,
              SizeIs(testing::Ge(80)));
}

TEST(EngineIntrospectionLimits, FewerTokensWaitWhereTheyBringMuch) {
  ToyServer server(ToyState::kAppend, {.max_tokens = 300'000}, 400'000);
  constexpr int32_t kTokens = 130'000;
  const int64_t most = kMaxWaitingIntrospectionBytes / (32 + 4 * (kTokens + 2));
  ASSERT_EQ(most, 4);
  const auto before = server.engine->Stats();
  Reader reader(*server.engine, AskReads({1, 2}, kTokens));
  while (reader.stream().space() > 0) std::this_thread::yield();
  EXPECT_EQ(reader.stream().waiting(), most);
  EXPECT_EQ(server.engine->Stats().tokens_generated - before.tokens_generated, most);
  EXPECT_GT(server.engine->Stats().memory.output,
            static_cast<int64_t>(4 * sizeof(Introspection)));
  EXPECT_THAT(reader.Next().introspections, SizeIs(most));
  while (reader.so_far().tokens.size() < 50) {
    EXPECT_THAT(reader.Next().introspections, testing::Not(IsEmpty()));
  }
  reader.stream().Cancel();
  server.AwaitIdle();
  EXPECT_TRUE(AwaitMemory(
      *server.engine, [](const MemoryStats& memory) { return memory.output == 0; }));
}

}  // namespace
}  // namespace mnemon
