// SPDX-License-Identifier: MIT
// Stop strings, log-probabilities, the time limit, and text as tokens and back.
#include <cmath>

#include "tests/server/engine/engine_fixture.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::SizeIs;

// One ordinary token is one letter or sign; some are parts of characters.
class WordTokenizer final : public Tokenizer {
 public:
  WordTokenizer() {
    for (int i = 0; i < ToyDecoder::kVocab; ++i) {
      words_.push_back(std::string(1 + i % 3, static_cast<char>('a' + i % 7)));
    }
    words_[0] = "\xe2\x82";
    words_[1] = "\xac";
  }
  int32_t size() const override { return ToyDecoder::kVocab; }
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view) const override {
    return encoded;
  }
  std::string_view TokenBytes(int32_t id) const override { return words_[id]; }
  std::span<const int32_t> before_text() const override { return before; }
  bool special(int32_t id) const override { return id == no_text; }
  std::string Describe() const override { return ""; }
  std::string ToJson() const override { return ""; }

  std::vector<int32_t> before, encoded;
  int32_t no_text = -1;

 private:
  std::vector<std::string> words_;
};

struct OutputTest : testing::Test {
  WordTokenizer tokenizer;
  ToyServer server{ToyState::kFixedAndAppend, {}, 1024, &tokenizer};

  std::string TextOf(const std::vector<int32_t>& tokens) {
    Utf8Stream utf8;
    std::string text;
    for (const int32_t token : tokens) text += utf8.Push(tokenizer.TokenBytes(token));
    return text + utf8.Finish();
  }
};

TEST_F(OutputTest, StopStringsEndItWhereTheTextHoldsOneWhateverTheTokens) {
  const GenerateRequest plain = Ask({1, 2}, 60);
  const Outcome all = server.Run(plain);
  const std::string text = TextOf(all.tokens);
  ASSERT_EQ(all.text, text);
  int across = 0;
  for (size_t begin = 0; begin + 5 < text.size() && begin < 80; ++begin) {
    if ((static_cast<unsigned char>(text[begin]) & 0x80) != 0) continue;
    std::string stop = text.substr(begin, 4);
    if (std::any_of(stop.begin(), stop.end(), [](char c) { return c < 0; })) continue;
    GenerateRequest request = plain;
    request.stop_strings = {"never comes", stop};
    const Outcome got = server.Run(request);
    ASSERT_TRUE(got.status.ok()) << got.status;
    EXPECT_EQ(got.finish->reason, FinishReason::kStopString);
    EXPECT_EQ(got.finish->stop_string, stop);
    EXPECT_EQ(got.text, text.substr(0, text.find(stop)));
    // The tokens are the same, up to the one that brings the end of the string.
    ASSERT_LE(got.tokens.size(), all.tokens.size());
    EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), all.tokens.begin()));
    std::vector<int32_t> before(got.tokens.begin(), got.tokens.end() - 1);
    EXPECT_EQ(TextOf(before).find(stop), std::string::npos);
    EXPECT_NE(TextOf(got.tokens).find(stop), std::string::npos);
    ++across;
  }
  EXPECT_GT(across, 10);
}

TEST_F(OutputTest, ATextThatBeginsASessionBeginsAsTextsDo) {
  tokenizer.before = {7};
  tokenizer.encoded = {1, 2};
  server.CreateSession("s");
  GenerateRequest text = Ask({}, 5, "s");
  text.prompt = "ab";
  const Outcome first = server.Run(text);
  EXPECT_EQ(first.tokens, server.Run(Ask({7, 1, 2}, 5)).tokens);
  EXPECT_EQ(server.Position("s"), 8);
  server.Run(text);
  EXPECT_EQ(server.Position("s"), 8 + 2 + 5);
  // Ids are taken as they are.
  server.CreateSession("ids");
  server.Run(Ask({1, 2}, 5, "ids"));
  EXPECT_EQ(server.Position("ids"), 2 + 5);
}

TEST_F(OutputTest, SpecialTokensAreNoText) {
  const Outcome all = server.Run(Ask({1, 2}, 30));
  tokenizer.no_text = all.tokens[3];
  const Outcome got = server.Run(Ask({1, 2}, 30));
  EXPECT_EQ(got.tokens, all.tokens);
  std::vector<int32_t> text = all.tokens;
  std::erase(text, tokenizer.no_text);
  EXPECT_EQ(got.text, TextOf(text));
  EXPECT_NE(got.text, all.text);
}

// The clock stands still, so each token but the first is too soon for a message.
TEST_F(OutputTest, TokensOfAFastStreamComeAMomentLaterAndNeedNoOtherStep) {
  server.decoder.Allow(1);
  Reader call(*server.engine, Ask({1, 2}, 20));
  ASSERT_THAT(call.Next().tokens, SizeIs(1));
  const auto begin = std::chrono::steady_clock::now();
  server.decoder.Allow(3);
  while (call.so_far().tokens.size() < 4) ASSERT_FALSE(call.Next().finished);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, CallbackThreads::kDelay);
}

TEST_F(OutputTest, HeldBackTextComesAtTheEnd) {
  const Outcome all = server.Run(Ask({1, 2}, 20));
  // Every beginning of the text is a beginning of a stop string that never comes.
  GenerateRequest request = Ask({1, 2}, 20);
  request.stop_strings = {all.text + "~"};
  const Outcome got = server.Run(request);
  EXPECT_EQ(got.text, all.text);
  EXPECT_EQ(got.finish->reason, FinishReason::kMaxTokens);
  EXPECT_EQ(got.finish->stop_string, std::nullopt);
}

TEST_F(OutputTest, AStoppedSessionHoldsItsTokensAndGoesOn) {
  server.CreateSession("s");
  const Outcome all = server.Run(Ask({1, 2}, 60));
  GenerateRequest request = Ask({1, 2}, 60, "s");
  request.stop_strings = {TextOf({all.tokens[10]})};
  const Outcome got = server.Run(request);
  ASSERT_TRUE(got.status.ok());
  server.AwaitIdle();
  EXPECT_EQ(server.Position("s"), 2 + static_cast<int64_t>(got.tokens.size()));
  const std::vector<int32_t> history = Joined({1, 2}, got.tokens);
  EXPECT_EQ(server.Run(Ask({}, 9, "s")).tokens,
            ToyContinuation(ToyState::kFixedAndAppend, history, 9, AskedSampling()));
}

TEST_F(OutputTest, StopStringsAreBounded) {
  const auto field = [&](std::vector<std::string> strings) {
    GenerateRequest request = Ask({1}, 3);
    request.stop_strings = std::move(strings);
    return FieldOf(server.Run(request).status);
  };
  EXPECT_EQ(field({"a", ""}), "stop_strings[1]");
  EXPECT_EQ(field({std::string(257, 'a')}), "stop_strings[0]");
  EXPECT_EQ(field({"\xff"}), "stop_strings[0]");
  EXPECT_EQ(field(std::vector<std::string>(17, "a")), "stop_strings");
  EXPECT_EQ(field(std::vector<std::string>(100000, "a")), "stop_strings");
  EXPECT_EQ(field(std::vector<std::string>(16, std::string(256, 'x'))), "");
}

TEST(EngineOutput, StopStringsNeedATokenizer) {
  ToyServer server(ToyState::kFixed);
  GenerateRequest request = Ask({1}, 3);
  request.stop_strings = {"a"};
  const absl::Status status = server.Run(request).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "NO_TOKENIZER");
}

TEST_F(OutputTest, LogprobsAreThoseOfTheUnmodifiedDistribution) {
  GenerateRequest request = Ask({5, 6}, 30);
  request.sampling.temperature = 0.3;
  request.sampling.top_k = 3;
  request.sampling.repetition_penalty = 1.5;
  request.logprobs = {.wanted = true, .candidates = {.most_likely = 4, .ids = {39, 0}}};
  Reader reader(*server.engine, request);
  std::vector<TokenLogprobs> scored;
  std::vector<int32_t> tokens;
  for (bool finished = false; !finished;) {
    const TokenChunk chunk = reader.Next();
    ASSERT_EQ(chunk.logprobs.size(), chunk.tokens.size());
    scored.insert(scored.end(), chunk.logprobs.begin(), chunk.logprobs.end());
    tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
    finished = chunk.finished;
  }
  ASSERT_THAT(scored, SizeIs(30));
  // The same history, computed one token at a time.
  ToyDecoder decoder(ToyState::kFixedAndAppend);
  auto arena = StateArena::Create(decoder.spec(), {.slots = 1});
  const int32_t slot = *(*arena)->Acquire();
  const std::vector<int32_t> history = Joined({5, 6}, tokens);
  std::vector<float> logits(ToyDecoder::kVocab);
  SamplerScratch scratch;
  for (size_t i = 0; i + 1 < history.size(); ++i) {
    const Segment segment{.slot = slot,
                          .position = static_cast<int64_t>(i),
                          .tokens = std::span(&history[i], 1)};
    ASSERT_TRUE(decoder.Step({&segment, 1}, **arena, logits.data()).ok());
    if (i == 0) continue;
    EXPECT_EQ(scored[i - 1], *ScoreToken(logits, history[i + 1],
                                         request.logprobs.candidates, scratch));
    EXPECT_THAT(scored[i - 1].candidates, SizeIs(6));
    EXPECT_EQ(scored[i - 1].candidates[4].logprob, -INFINITY);
  }
}

TEST_F(OutputTest, LogprobsAreBounded) {
  const auto field = [&](CandidateChoice choice) {
    GenerateRequest request = Ask({1}, 3);
    request.logprobs = {.wanted = true, .candidates = std::move(choice)};
    return FieldOf(server.Run(request).status);
  };
  for (int32_t bad : {-1, 21, 40, INT32_MAX}) {
    EXPECT_EQ(field({.most_likely = bad, .ids = {}}), "top_candidate_count") << bad;
  }
  EXPECT_EQ(field({.most_likely = 20, .ids = {}}), "");
  EXPECT_EQ(field({.most_likely = 0, .ids = {0, 40}}), "candidate_ids[1]");
  EXPECT_EQ(field({.most_likely = 0, .ids = {-1}}), "candidate_ids[0]");
  EXPECT_EQ(field({.most_likely = 0, .ids = std::vector<int32_t>(101)}),
            "candidate_ids");
}

TEST_F(OutputTest, TheTimeLimitCountsFromAdmission) {
  server.CreateSession("s");
  server.decoder.Allow(3);
  GenerateRequest request = Ask({1, 2, 3}, 500, "s");
  request.time_limit = milliseconds(100);
  Reader reader(*server.engine, request);
  server.decoder.AwaitHeld();
  server.clock.Advance(milliseconds(99));
  server.decoder.Allow(2);
  server.decoder.AwaitHeld();
  server.clock.Advance(milliseconds(1));
  server.decoder.AllowAll();
  const Outcome got = reader.Finish();
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.finish->reason, FinishReason::kTimeLimit);
  // Three steps, two steps, and the one that was on its way.
  EXPECT_EQ(got.tokens,
            ToyContinuation(ToyState::kFixedAndAppend, {1, 2, 3}, 6, AskedSampling()));
  EXPECT_EQ(got.finish->generated_tokens, 6);
  EXPECT_EQ(got.finish->prompt_time + got.finish->generation_time, milliseconds(100));
  server.AwaitIdle();
  EXPECT_EQ(server.Run(Ask({}, 4, "s")).tokens,
            ToyContinuation(ToyState::kFixedAndAppend, Joined({1, 2, 3}, got.tokens), 4,
                            AskedSampling()));
}

TEST_F(OutputTest, TheTimeLimitEndsACallThatWaitsForItsReader) {
  GenerateRequest request = Ask({1}, 1000);
  request.time_limit = milliseconds(50);
  Reader reader(*server.engine, request);
  while (reader.stream().space() > 0) std::this_thread::yield();
  server.clock.Advance(milliseconds(50));
  server.AwaitIdle();
  const Outcome got = reader.Finish();
  EXPECT_EQ(got.finish->reason, FinishReason::kTimeLimit);
  EXPECT_THAT(got.tokens, SizeIs(TokenStream::kCapacity));
}

TEST_F(OutputTest, TimeLimitsAreChecked) {
  for (int64_t bad : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
    GenerateRequest request = Ask({1}, 3);
    request.time_limit = milliseconds(bad);
    EXPECT_EQ(FieldOf(server.Run(request).status), "time_limit") << bad;
  }
}

TEST(EngineText, TokenizesWithOffsetsAndBack) {
  const auto tokenizer = *MakeCharTokenizer("ab\xc3\xa9");
  ToyServer server(ToyState::kFixed, {}, 1024, tokenizer.get());
  const auto text = server.engine->Tokenize("",
                                            "b\xc3\xa9"
                                            "a");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(text->tokens, ElementsAre(1, 2, 0));
  EXPECT_THAT(text->byte_offsets, ElementsAre(0, 1, 3));
  EXPECT_EQ(server.engine->Detokenize("toy", text->tokens)->raw,
            "b\xc3\xa9"
            "a");
  EXPECT_TRUE(server.engine->Tokenize("", "")->tokens.empty());
  const absl::Status unknown = server.engine->Tokenize("", "ax").status();
  EXPECT_EQ(ReasonOf(unknown), "UNKNOWN_CHARACTER");
  EXPECT_EQ(FieldOf(unknown), "text");
  EXPECT_EQ(FieldOf(server.engine->Detokenize("", {0, 3}).status()), "tokens[1]");
  EXPECT_EQ(FieldOf(server.engine->Detokenize("", {-1}).status()), "tokens[0]");
  EXPECT_EQ(ReasonOf(server.engine->Tokenize("other", "a").status()),
            "MODEL_NOT_FOUND");
  EXPECT_EQ(
      FieldOf(server.engine->Tokenize("", std::string((1 << 19) + 1, 'a')).status()),
      "text");
  EXPECT_TRUE(server.engine->Tokenize("", std::string(1 << 19, 'a')).ok());
  EXPECT_EQ(
      FieldOf(server.engine->Detokenize("", std::vector<int32_t>(1000001, 0)).status()),
      "tokens");
}

TEST(EngineText, BytesThatAreNoTextBecomeReplacements) {
  const auto tokenizer = MakeByteTokenizer();
  ToyServer server(ToyState::kFixed, {}, 1024, tokenizer.get());
  const auto text = server.engine->Detokenize("", {'a', 0xff, 0xe2, 0x82});
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->raw, "a\xff\xe2\x82");
  EXPECT_EQ(text->text, "a\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(EngineText, NeedsATokenizer) {
  ToyServer server(ToyState::kFixed);
  EXPECT_EQ(ReasonOf(server.engine->Tokenize("", "a").status()), "NO_TOKENIZER");
  EXPECT_EQ(ReasonOf(server.engine->Detokenize("", {1}).status()), "NO_TOKENIZER");
}

}  // namespace
}  // namespace mnemon
