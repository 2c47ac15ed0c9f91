// SPDX-License-Identifier: MIT
// Progress of a long prompt, in Generate and Converse.
#include <utility>

#include "gmock/gmock.h"
#include "tests/fakes/fake_clock.h"
#include "tests/server/rpc/talk.h"

namespace mnemon {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::Pair;

// Five steps, each of a second.
struct SlowPrompt {
  SlowPrompt() { rig.decoder.Allow(0); }
  static RigOptions WithClock(Clock& clock) {
    RigOptions options;
    options.engine.clock = &clock;
    return options;
  }
  static converse::Tokens Prompt() { return converse::Tokens(300, 1); }
  // Lets one step through.
  void Step() {
    rig.decoder.AwaitHeld();
    clock.Advance(seconds(1));
    rig.decoder.Allow(1);
  }

  FakeClock clock;
  Rig rig{WithClock(clock)};
};

using Counts = std::vector<std::pair<int64_t, int64_t>>;

// `read` gives the next message. The first step only starts the second.
template <typename Read>
Counts ReadProgress(SlowPrompt& slow, const Read& read) {
  Counts counts;
  slow.Step();
  for (int i = 0; i < 3; ++i) {
    slow.Step();
    v1::GenerateResponse message;
    EXPECT_TRUE(read(message));
    EXPECT_TRUE(message.tokens().empty());
    EXPECT_EQ(message.has_prompt(), i == 0);
    counts.emplace_back(message.progress().computed_token_count(),
                        message.progress().token_count());
  }
  slow.rig.decoder.AllowAll();
  return counts;
}

TEST(PromptProgress, ComesEverySecondWithTheFactsFirst) {
  SlowPrompt slow;
  BoundedContext context;
  v1::GenerateRequest request;
  const auto prompt = SlowPrompt::Prompt();
  request.mutable_prompt()->mutable_tokens()->mutable_ids()->Add(prompt.begin(),
                                                                 prompt.end());
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(5);
  const auto stream = slow.rig.generation->Generate(&context, request);
  EXPECT_THAT(ReadProgress(slow, [&](auto& message) { return stream->Read(&message); }),
              ElementsAre(Pair(128, 300), Pair(192, 300), Pair(256, 300)));
  converse::Tokens tokens;
  v1::GenerateResponse message;
  while (stream->Read(&message)) {
    EXPECT_FALSE(message.has_progress());
    EXPECT_FALSE(message.has_prompt());
    tokens.insert(tokens.end(), message.tokens().begin(), message.tokens().end());
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(tokens, converse::Greedy(prompt, 5));
}

TEST(PromptProgress, NeedsNoCredits) {
  SlowPrompt slow;
  converse::Talk talk(slow.rig, converse::OpenOf("", 0));
  talk.Send(converse::TurnOf(SlowPrompt::Prompt(), 5));
  const auto read = [&](v1::GenerateResponse& message) {
    message = talk.ReadOutput();
    return true;
  };
  EXPECT_THAT(ReadProgress(slow, read),
              ElementsAre(Pair(128, 300), Pair(192, 300), Pair(256, 300)));
  talk.Send(converse::CreditsOf(5));
  EXPECT_EQ(talk.Finish().tokens, converse::Greedy(SlowPrompt::Prompt(), 5));
}

}  // namespace
}  // namespace mnemon
