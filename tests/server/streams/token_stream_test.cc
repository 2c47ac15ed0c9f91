// SPDX-License-Identifier: MIT
#include "server/streams/token_stream.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// `ready` counts how often on_ready was due.
struct Fixture {
  void Push(int64_t index, int32_t token) {
    ready += stream.Push(index, token, std::nullopt, {}) == TokenStream::Notice::kNow;
  }
  void Finish(absl::Status status, std::optional<FinishFacts> facts) {
    ready += stream.Finish(std::move(status), facts);
  }
  int ready = 0;
  std::vector<StreamEvent> events;
  std::unique_ptr<Tokenizer> tokenizer = MakeByteTokenizer();
  TokenStream stream{{.tokenizer = tokenizer.get(),
                      .on_event = [this](StreamEvent e) { events.push_back(e); }}};
};

TEST(TokenStream, StartFactsWaitForTheFirstToken) {
  Fixture f;
  f.stream.Start({.first_index = 5, .prompt_tokens = 2, .seed = 9});
  EXPECT_EQ(f.ready, 0);
  EXPECT_FALSE(f.stream.Take().start);
  f.Push(7, 'a');
  const TokenChunk chunk = f.stream.Take();
  ASSERT_TRUE(chunk.start);
  EXPECT_EQ(chunk.start->seed, 9u);
  EXPECT_EQ(chunk.first_index, 7);
  EXPECT_EQ(chunk.text, "a");
  f.Push(8, 'b');
  EXPECT_FALSE(f.stream.Take().start);
}

TEST(TokenStream, ProgressComesOnceASecondUntilTheFirstToken) {
  Fixture f;
  f.stream.Start({.prompt_tokens = 500});
  const auto report = [&](int64_t computed, int milliseconds) {
    f.ready +=
        f.stream.Report({computed, 500},
                        RequestTimer::Time(std::chrono::milliseconds(milliseconds))) ==
        TokenStream::Notice::kNow;
  };
  report(100, 5000);
  report(200, 5999);
  EXPECT_EQ(f.ready, 0);
  EXPECT_FALSE(f.stream.Take().progress);
  report(300, 6000);
  report(400, 7000);  // before the first was taken
  EXPECT_EQ(f.ready, 1);
  const TokenChunk chunk = f.stream.Take(0);
  EXPECT_TRUE(chunk.start);
  ASSERT_TRUE(chunk.progress);
  EXPECT_EQ(chunk.progress->computed, 400);
  EXPECT_EQ(chunk.progress->of, 500);
  EXPECT_EQ(f.stream.delivered(), 0);
  EXPECT_FALSE(f.stream.Take().progress);
  report(450, 8000);
  f.Push(500, 'a');  // before that was taken
  EXPECT_EQ(f.ready, 2);
  const TokenChunk first = f.stream.Take();
  EXPECT_FALSE(first.progress);
  EXPECT_FALSE(first.start);
  EXPECT_THAT(first.tokens, ElementsAre('a'));
  report(500, 9000);
  EXPECT_FALSE(f.stream.Take().progress);
  EXPECT_EQ(f.ready, 2);
}

TEST(TokenStream, AnEndTakesThePlaceOfProgress) {
  for (const bool cancel : {false, true}) {
    Fixture f;
    for (const int second : {1, 2}) {
      f.ready +=
          f.stream.Report({1, 2}, RequestTimer::Time(std::chrono::seconds(second))) ==
          TokenStream::Notice::kNow;
    }
    if (cancel) f.stream.Cancel();
    f.Finish(absl::OkStatus(), FinishFacts{});
    const TokenChunk chunk = f.stream.Take();
    EXPECT_FALSE(chunk.progress);
    EXPECT_TRUE(chunk.finished);
    EXPECT_EQ(chunk.status.ok(), !cancel);
  }
}

TEST(TokenStream, TokensCoalesceAndNotifyOnce) {
  Fixture f;
  f.Push(0, 'a');
  f.Push(1, 'b');
  EXPECT_EQ(f.ready, 1);
  EXPECT_THAT(f.stream.Take().tokens, ElementsAre('a', 'b'));
  // Room in a stream that was not full changes nothing for its runner.
  EXPECT_THAT(f.events, IsEmpty());
  EXPECT_EQ(f.stream.delivered(), 2);
  f.Push(2, 'c');
  EXPECT_EQ(f.ready, 2);
  EXPECT_THAT(f.stream.Take().tokens, ElementsAre('c'));
  EXPECT_THAT(f.stream.Take().tokens, IsEmpty());
}

TEST(TokenStream, GivesSomeOfWhatWaitsAndTheEndWithTheLast) {
  Fixture f;
  f.stream.Start({.first_index = 0, .prompt_tokens = 3});
  for (const int i : {0, 1, 2, 3}) f.Push(3 + i, 'a' + i);
  f.Finish(absl::OkStatus(), FinishFacts{.generated_tokens = 4});
  const TokenChunk first = f.stream.Take(1);
  EXPECT_TRUE(first.start);
  EXPECT_EQ(first.first_index, 3);
  EXPECT_EQ(first.text, "a");
  EXPECT_FALSE(first.finished);
  EXPECT_EQ(f.stream.delivered(), 1);
  EXPECT_EQ(f.stream.space(), TokenStream::kCapacity - 3);
  const TokenChunk second = f.stream.Take(2);
  EXPECT_FALSE(second.start);
  EXPECT_EQ(second.first_index, 4);
  EXPECT_EQ(second.text, "bc");
  EXPECT_FALSE(second.finished);
  const TokenChunk last = f.stream.Take(2);
  EXPECT_EQ(last.first_index, 6);
  EXPECT_EQ(last.text, "d");
  EXPECT_TRUE(last.finished);
  EXPECT_TRUE(last.finish);
  EXPECT_EQ(f.stream.delivered(), 4);
}

// A stream with an interval of 1 ms, whose times count from the first token.
struct PacedFixture {
  TokenStream::Notice Push(int64_t index, std::chrono::microseconds at) {
    return stream->Push(index, 'x', std::nullopt, RequestTimer::Time(at));
  }
  int ready = 0;
  std::shared_ptr<TokenStream> stream =
      std::make_shared<TokenStream>(TokenStream::Options{
          .interval = std::chrono::milliseconds(1), .on_ready = [this] { ++ready; }});
};

TEST(TokenStream, TokensWithinTheIntervalAreDueTogether) {
  using std::chrono_literals::operator""us;
  using Notice = TokenStream::Notice;
  PacedFixture f;
  EXPECT_EQ(f.Push(0, 0us), Notice::kNow);
  EXPECT_EQ(f.stream->Take().tokens.size(), 1u);
  EXPECT_EQ(f.Push(1, 200us), Notice::kLater);
  EXPECT_EQ(f.Push(2, 400us), Notice::kNone);
  EXPECT_THAT(f.stream->Take().tokens, IsEmpty());
  EXPECT_EQ(f.stream->delivered(), 1);
  TokenStream::Late(f.stream)->RunCallback();
  EXPECT_EQ(f.ready, 1);
  EXPECT_EQ(f.Push(3, 1100us), Notice::kNone);
  EXPECT_EQ(f.stream->Take().tokens.size(), 3u);
  // The interval counts from the time at which they became due.
  EXPECT_EQ(f.Push(4, 1900us), Notice::kLater);
  TokenStream::Late(f.stream)->RunCallback();
  EXPECT_EQ(f.stream->Take().tokens.size(), 1u);
  EXPECT_EQ(f.Push(5, 3000us), Notice::kNow);
}

TEST(TokenStream, HalfFullItIsDueAtOnce) {
  using Notice = TokenStream::Notice;
  PacedFixture f;
  ASSERT_EQ(f.Push(0, {}), Notice::kNow);
  f.stream->Take();
  for (int i = 1; i < TokenStream::kCapacity / 2; ++i) {
    EXPECT_NE(f.Push(i, {}), Notice::kNow);
  }
  EXPECT_EQ(f.Push(TokenStream::kCapacity / 2, {}), Notice::kNow);
  EXPECT_EQ(f.stream->Take().tokens.size(), TokenStream::kCapacity / 2);
  // Nothing is left for the late notice.
  TokenStream::Late(f.stream)->RunCallback();
  EXPECT_EQ(f.ready, 0);
}

TEST(TokenStream, TheEndIsDueAtOnce) {
  PacedFixture f;
  ASSERT_EQ(f.Push(0, {}), TokenStream::Notice::kNow);
  f.stream->Take();
  ASSERT_EQ(f.Push(1, {}), TokenStream::Notice::kLater);
  EXPECT_TRUE(f.stream->Finish(absl::OkStatus(), FinishFacts{}));
  const TokenChunk chunk = f.stream->Take();
  EXPECT_EQ(chunk.tokens.size(), 1u);
  EXPECT_TRUE(chunk.finished);
}

TEST(TokenStream, TextIsAlwaysCompleteUtf8) {
  Fixture f;
  f.Push(0, 0xe2);
  EXPECT_EQ(f.stream.Take().text, "");
  f.Push(1, 0x82);
  f.Push(2, 0xac);
  EXPECT_EQ(f.stream.Take().text, "\xe2\x82\xac");
  f.Push(3, 0xe2);
  f.Finish(absl::OkStatus(), FinishFacts{});
  EXPECT_EQ(f.stream.Take().text, "\xef\xbf\xbd");
}

TEST(TokenStream, EndsOnce) {
  Fixture f;
  f.Push(0, 'a');
  f.Finish(absl::OkStatus(), FinishFacts{.generated_tokens = 1});
  f.Finish(absl::InternalError("late"), std::nullopt);
  EXPECT_THAT(f.events, IsEmpty());
  const TokenChunk chunk = f.stream.Take();
  EXPECT_TRUE(chunk.finished);
  EXPECT_TRUE(chunk.status.ok());
  EXPECT_EQ(chunk.finish->generated_tokens, 1);
  EXPECT_THAT(f.events, ElementsAre(StreamEvent::kEnd));
  EXPECT_FALSE(f.stream.Take().finished);
}

TEST(TokenStream, HoldsAtMostItsCapacity) {
  Fixture f;
  for (int i = 0; i < TokenStream::kCapacity; ++i) {
    EXPECT_EQ(f.stream.space(), TokenStream::kCapacity - i);
    f.Push(i, 'x');
  }
  EXPECT_EQ(f.stream.space(), 0);
  EXPECT_DEATH(f.Push(64, 'x'), "check failed");
  f.stream.Take();
  EXPECT_THAT(f.events, ElementsAre(StreamEvent::kSpace));
  EXPECT_EQ(f.stream.space(), TokenStream::kCapacity);
}

TEST(TokenStream, CancelDropsWhatWaitsAndFreezesDelivery) {
  Fixture f;
  f.Push(0, 'a');
  f.stream.Take();
  f.Push(1, 'b');
  f.stream.Cancel();
  f.stream.Cancel();
  EXPECT_THAT(f.events, ElementsAre(StreamEvent::kCancelled));
  f.Push(2, 'c');
  EXPECT_EQ(f.stream.delivered(), 1);
  f.Finish(absl::OkStatus(), FinishFacts{});
  const TokenChunk chunk = f.stream.Take();
  EXPECT_THAT(chunk.tokens, IsEmpty());
  EXPECT_EQ(chunk.status.code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(chunk.finish);
  EXPECT_EQ(f.stream.delivered(), 1);
}

TEST(TokenStream, CancelBetweenEndAndTakeIsACancel) {
  Fixture f;
  f.Push(0, 'a');
  f.Finish(absl::OkStatus(), FinishFacts{});
  f.stream.Cancel();
  EXPECT_TRUE(f.stream.cancelled());
  EXPECT_EQ(f.stream.Take().status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(f.stream.delivered(), 0);
}

TEST(TokenStream, CancelAfterTheEndWasTakenIsNothing) {
  Fixture f;
  f.Finish(absl::OkStatus(), FinishFacts{});
  f.stream.Take();
  f.stream.Cancel();
  EXPECT_FALSE(f.stream.cancelled());
}

TEST(TokenStream, WithoutCreditOnlyAnEndAfterNoTokenIsTaken) {
  Fixture f;
  f.stream.Start({.first_index = 0, .prompt_tokens = 3});
  f.Push(3, 'a');
  f.Finish(absl::OkStatus(), FinishFacts{.generated_tokens = 1});
  const TokenChunk none = f.stream.Take(0);
  EXPECT_FALSE(none.start);
  EXPECT_FALSE(none.finished);
  EXPECT_EQ(f.stream.delivered(), 0);
  const TokenChunk all = f.stream.Take(1);
  EXPECT_TRUE(all.start);
  EXPECT_THAT(all.tokens, ElementsAre('a'));
  EXPECT_TRUE(all.finished);
  Fixture empty;
  empty.Finish(absl::OkStatus(), FinishFacts{});
  EXPECT_TRUE(empty.stream.Take(0).finished);
}

// A consumer that has not taken what was due hears of the end all the same.
TEST(TokenStream, CancelledItIsDueAgainWithItsEnd) {
  Fixture f;
  f.Push(0, 'a');
  EXPECT_EQ(f.ready, 1);
  f.stream.Cancel(CancelKind::kEnd);
  EXPECT_EQ(f.stream.cancel_kind(), CancelKind::kEnd);
  EXPECT_FALSE(f.stream.Take().finished);
  f.Finish(absl::CancelledError(), std::nullopt);
  EXPECT_EQ(f.ready, 2);
  EXPECT_TRUE(f.stream.Take().finished);
}

TEST(TokenStream, EndedByItsConsumerItEndsWithoutItsSession) {
  for (const bool before : {false, true}) {
    Fixture f;
    if (before) f.stream.Cancel(CancelKind::kEnd);
    EXPECT_NE(f.stream.Finish(absl::OkStatus(), FinishFacts{}, /*held=*/true), before);
    if (!before) f.stream.Cancel(CancelKind::kEnd);
    EXPECT_FALSE(f.stream.Take().finished);
    EXPECT_TRUE(f.stream.Finish(absl::CancelledError(), std::nullopt));
    const TokenChunk chunk = f.stream.Take();
    EXPECT_TRUE(chunk.finished);
    EXPECT_EQ(chunk.status.code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(f.stream.delivered(), 0);
  }
}

TEST(TokenStream, StoppedItEndsAtTheLastTokenTaken) {
  for (const bool ended : {false, true}) {
    Fixture f;
    f.Push(0, 'a');
    f.stream.Take();
    f.Push(1, 'b');
    if (ended) f.Finish(absl::OkStatus(), FinishFacts{});
    EXPECT_TRUE(f.stream.StopDelivery());
    EXPECT_FALSE(f.stream.StopDelivery());
    EXPECT_FALSE(f.stream.Take().finished);
    f.Finish(absl::AbortedError("idle"), std::nullopt);
    f.Finish(absl::OkStatus(), FinishFacts{});
    const TokenChunk chunk = f.stream.Take();
    EXPECT_TRUE(chunk.finished);
    EXPECT_THAT(chunk.tokens, IsEmpty());
    EXPECT_EQ(chunk.status.message(), "idle");
    EXPECT_EQ(f.stream.delivered(), 1);
  }
}

TEST(TokenStream, WhoseEndWasTakenIsNotStopped) {
  Fixture f;
  f.Finish(absl::OkStatus(), FinishFacts{});
  f.stream.Take();
  EXPECT_FALSE(f.stream.StopDelivery());
  EXPECT_FALSE(f.stream.cancelled());
}

// A gated stream of a call whose prompt ends at 10.
struct GatedFixture : Fixture {
  GatedFixture() { gated.Start({.first_index = 8, .prompt_tokens = 2}); }
  void Push(int64_t index) {
    ready += gated.Push(index, 'a' + static_cast<int32_t>(index - 10), std::nullopt,
                        {}) == TokenStream::Notice::kNow;
  }
  void Release(int64_t end, bool finish) {
    ready += gated.Release(end, finish, {}) == TokenStream::Notice::kNow;
  }
  TokenStream gated{{.tokenizer = tokenizer.get(), .gated = true}};
};

TEST(TokenStream, GatedItGivesWhatWasReleased) {
  GatedFixture f;
  for (const int64_t index : {10, 11, 12}) f.Push(index);
  EXPECT_EQ(f.ready, 0);
  EXPECT_THAT(f.gated.Take().tokens, IsEmpty());
  EXPECT_EQ(f.gated.space(), TokenStream::kCapacity - 3);
  f.Release(12, false);
  EXPECT_EQ(f.ready, 1);
  const TokenChunk chunk = f.gated.Take();
  EXPECT_TRUE(chunk.start);
  EXPECT_EQ(chunk.first_index, 10);
  EXPECT_EQ(chunk.text, "ab");
  EXPECT_EQ(f.gated.delivered(), 2);
  EXPECT_THAT(f.gated.Take().tokens, IsEmpty());
  // A release may come before its token, and none takes an earlier one back.
  f.Release(15, false);
  f.Release(11, false);
  EXPECT_EQ(f.ready, 2);
  EXPECT_EQ(f.gated.Take().text, "c");
  f.Push(13);
  EXPECT_EQ(f.ready, 3);
  EXPECT_EQ(f.gated.Take().text, "d");
}

TEST(TokenStream, GatedItHoldsTheEndBack) {
  GatedFixture f;
  f.Push(10);
  f.Push(11);
  EXPECT_FALSE(f.gated.Finish(absl::OkStatus(), FinishFacts{.generated_tokens = 2}));
  f.Release(12, false);
  EXPECT_EQ(f.ready, 1);
  TokenChunk chunk = f.gated.Take();
  EXPECT_EQ(chunk.text, "ab");
  EXPECT_FALSE(chunk.finished);
  EXPECT_FALSE(f.gated.Take().finished);
  f.Release(12, true);
  EXPECT_EQ(f.ready, 2);
  chunk = f.gated.Take();
  EXPECT_TRUE(chunk.finished);
  EXPECT_TRUE(chunk.finish);
  EXPECT_EQ(chunk.first_index, 12);
}

TEST(TokenStream, GatedItGivesTheEndNotBeforeItsTokens) {
  GatedFixture f;
  f.Push(10);
  f.Release(10, true);
  EXPECT_FALSE(f.gated.Finish(absl::InternalError("broken"), std::nullopt));
  EXPECT_FALSE(f.gated.Take().finished);
  f.Release(11, false);
  EXPECT_EQ(f.ready, 1);
  const TokenChunk chunk = f.gated.Take();
  EXPECT_EQ(chunk.text, "a");
  EXPECT_TRUE(chunk.finished);
  EXPECT_EQ(chunk.status.message(), "broken");
}

TEST(TokenStream, GatedAnErrorBeforeTheFirstTokenIsDueAtOnce) {
  GatedFixture f;
  EXPECT_TRUE(f.gated.Finish(absl::InternalError("refused"), std::nullopt));
  EXPECT_TRUE(f.gated.Take().finished);
}

TEST(TokenStream, GatedItEndsAtOnceWhenCancelled) {
  for (const bool ended : {false, true}) {
    GatedFixture f;
    f.Push(10);
    if (ended) {
      EXPECT_FALSE(f.gated.Finish(absl::OkStatus(), FinishFacts{}));
    }
    f.gated.Cancel();
    if (!ended) {
      EXPECT_TRUE(f.gated.Finish(absl::OkStatus(), FinishFacts{}));
    }
    const TokenChunk chunk = f.gated.Take();
    EXPECT_TRUE(chunk.finished);
    EXPECT_EQ(chunk.status.code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(f.gated.delivered(), 0);
  }
}

TEST(TokenStream, ResumedItGoesOnAfterAnIndex) {
  Fixture f;
  // The first byte of a character was delivered as nothing.
  std::vector<int32_t> tokens = {'a', 0xe2, 0x82, 0xac};
  for (int i = 0; i < 100; ++i) tokens.push_back('a' + i % 26);
  f.stream.Resume({.first_index = 5, .prompt_tokens = 2, .seed = 3}, 8, tokens);
  EXPECT_EQ(f.stream.delivered(), 2);
  EXPECT_EQ(f.stream.space(), 0);
  TokenChunk chunk = f.stream.Take(3);
  ASSERT_TRUE(chunk.start);
  EXPECT_EQ(chunk.start->seed, 3u);
  EXPECT_EQ(chunk.first_index, 9);
  EXPECT_EQ(chunk.text, "\xe2\x82\xac\x61");
  EXPECT_EQ(f.stream.delivered(), 5);
  // Its runner is told when there is space, and not before.
  EXPECT_THAT(f.events, IsEmpty());
  f.stream.Take(TokenStream::kCapacity);
  EXPECT_THAT(f.events, ElementsAre(StreamEvent::kSpace));
  EXPECT_EQ(f.stream.space(), TokenStream::kCapacity - 35);
  // The start facts of its runner come too late.
  f.stream.Start({.first_index = 111});
  f.Push(111, '!');
  chunk = f.stream.Take();
  EXPECT_FALSE(chunk.start);
  EXPECT_EQ(chunk.tokens.size(), 36u);
  EXPECT_EQ(chunk.first_index, 76);
  EXPECT_EQ(f.stream.delivered(), 105);
}

TEST(TokenStream, ResumedAheadItGivesNothingTwice) {
  Fixture f;
  f.stream.Resume({.first_index = 5, .prompt_tokens = 2}, 10, {'a', 0xe2});
  EXPECT_EQ(f.stream.delivered(), 4);
  EXPECT_EQ(f.stream.space(), TokenStream::kCapacity);
  f.Push(9, 0x82);
  f.Push(10, 0xac);
  EXPECT_EQ(f.ready, 0);
  f.Push(11, 'b');
  EXPECT_EQ(f.ready, 1);
  const TokenChunk chunk = f.stream.Take();
  EXPECT_TRUE(chunk.start);
  EXPECT_EQ(chunk.first_index, 11);
  EXPECT_EQ(chunk.text, "b");
  EXPECT_EQ(f.stream.delivered(), 5);
}

TEST(TokenStream, ResumedTheTextStopsWhereItDid) {
  Fixture f;
  TokenStream stream({.tokenizer = f.tokenizer.get(), .stop_strings = {"bcd"}});
  stream.Resume({.first_index = 0, .prompt_tokens = 1}, 2, {'a', 'b', 'c'});
  EXPECT_EQ(stream.Take().text, "");  // it may yet be part of one
  EXPECT_EQ(stream.Push(4, 'x', std::nullopt, {}), TokenStream::Notice::kNow);
  EXPECT_EQ(stream.Take().text, "bcx");
}

TEST(TokenStream, WhatIsHeldBackOfTheTextComesWithAnEndThatIsNoError) {
  const std::unique_ptr<Tokenizer> tokenizer = MakeByteTokenizer();
  for (const bool error : {false, true}) {
    TokenStream stream({.tokenizer = tokenizer.get(), .stop_strings = {"bc"}});
    int64_t index = 3;
    for (const int32_t token : {0x61, 0x62, 0xc3}) {
      static_cast<void>(stream.Push(index++, token, std::nullopt, {}));
    }
    static_cast<void>(stream.Finish(
        error ? absl::UnavailableError("draining") : absl::OkStatus(), std::nullopt));
    EXPECT_EQ(stream.Take().text, error ? "a" : "ab\xef\xbf\xbd");
  }
}

TEST(TokenStream, TextComesWithItsTokensWhereTheyAreTakenInParts) {
  const std::unique_ptr<Tokenizer> tokenizer = MakeByteTokenizer();
  for (const bool stops : {false, true}) {
    TokenStream stream({.tokenizer = tokenizer.get()});
    TokenStream searching({.tokenizer = tokenizer.get(), .stop_strings = {"xyz"}});
    TokenStream& tested = stops ? searching : stream;
    int64_t index = 3;
    for (const int32_t token : {0x61, 0x78, 0x79, 0xc3, 0xa4}) {
      static_cast<void>(tested.Push(index++, token, std::nullopt, {}));
    }
    EXPECT_EQ(tested.Take(1).text, "a");
    EXPECT_EQ(tested.Take(2).text, stops ? "" : "xy");
    static_cast<void>(tested.Push(index++, 'b', std::nullopt, {}));
    EXPECT_EQ(tested.Take(2).text, stops ? "xy\xc3\xa4" : "\xc3\xa4");
    EXPECT_EQ(tested.Take().text, "b");
    EXPECT_FALSE(tested.stop_string());
  }
}

TEST(TokenStream, FindsTheStopStringWhereverItsTokensComeFrom) {
  const std::unique_ptr<Tokenizer> tokenizer = MakeByteTokenizer();
  for (const size_t resumed : {0, 1, 2, 3}) {
    for (const int64_t after : {-1, 1, 2, 3}) {
      TokenStream stream({.tokenizer = tokenizer.get(), .stop_strings = {"bc"}});
      const std::vector<int32_t> tokens = {'a', 'b', 'c'};
      stream.Resume({.prompt_tokens = 1}, after,
                    {tokens.begin(), tokens.begin() + static_cast<int64_t>(resumed)});
      for (size_t i = resumed; i < tokens.size(); ++i) {
        EXPECT_FALSE(stream.stop_string());
        static_cast<void>(
            stream.Push(static_cast<int64_t>(i) + 1, tokens[i], std::nullopt, {}));
      }
      EXPECT_EQ(stream.stop_string(), "bc");
      static_cast<void>(stream.Finish(absl::OkStatus(), FinishFacts{}));
      EXPECT_EQ(stream.Take().text, after < 1 ? "a" : "");
    }
  }
}

TEST(TokenStream, WithoutAConsumerAStopStringIsFoundAllTheSame) {
  const std::unique_ptr<Tokenizer> tokenizer = MakeByteTokenizer();
  TokenStream stream({.tokenizer = tokenizer.get(), .stop_strings = {"bc"}});
  static_cast<void>(stream.Push(3, 'b', std::nullopt, {}));
  stream.Cancel();
  static_cast<void>(stream.Push(4, 'c', std::nullopt, {}));
  EXPECT_EQ(stream.stop_string(), "bc");
  EXPECT_TRUE(stream.Take().text.empty());
}

TEST(TokenStream, WithoutAConsumerNothingIsKept) {
  Fixture f;
  f.Push(0, 'a');
  f.stream.Take();
  f.stream.Cancel();
  f.Finish(absl::CancelledError(), std::nullopt);
  EXPECT_TRUE(f.stream.Take().finished);
  for (int i = 1; i < 3 * TokenStream::kCapacity; ++i) f.Push(i, 'a');
  EXPECT_EQ(f.stream.space(), TokenStream::kCapacity);
  EXPECT_EQ(f.stream.delivered(), 1);
  f.Finish(absl::OkStatus(), FinishFacts{});
  EXPECT_FALSE(f.stream.Take().finished);
}

TEST(TokenStream, NoTokenIsLostBetweenTwoThreads) {
  constexpr int kTokens = 20000;
  std::mutex mutex;
  std::condition_variable changed;
  int events = 0;
  const auto notify = [&] {
    std::lock_guard lock(mutex);
    ++events;
    changed.notify_all();
  };
  TokenStream stream({.on_ready = notify, .on_event = [&](StreamEvent) { notify(); }});
  std::thread engine([&] {
    for (int i = 0; i < kTokens; ++i) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return stream.space() > 0; });
      lock.unlock();
      if (stream.Push(i, i, std::nullopt, {}) == TokenStream::Notice::kNow) {
        stream.RunCallback();
      }
    }
    if (stream.Finish(absl::OkStatus(), FinishFacts{})) stream.RunCallback();
  });
  int next = 0;
  int seen = 0;
  while (true) {
    const TokenChunk chunk = stream.Take();
    for (int32_t token : chunk.tokens) ASSERT_EQ(token, next++);
    if (chunk.finished) break;
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return events != seen; });
    seen = events;
  }
  engine.join();
  EXPECT_EQ(next, kTokens);
}

// What waits beside the tokens counts while it waits, also where some always does.
TEST(TokenStream, CountsWhatTokensBringUntilItIsTaken) {
  ByteBudget budget(ByteBudget::kUnlimited);
  const auto account = std::make_shared<ByteAccount>(budget);
  TokenStream stream({.charge = ByteCharge(account)});
  stream.SetCapacity(3);
  const auto push = [&](int64_t index) {
    Introspection introspection;
    introspection.state_norms = {static_cast<float>(index)};
    introspection.memory_reads.weights.resize(1000);
    static_cast<void>(stream.Push(index, 'a',
                                  TokenLogprobs{.token = 'a', .candidates = {{}, {}}},
                                  {}, std::move(introspection)));
  };
  push(0);
  push(1);
  const int64_t two = account->bytes();
  EXPECT_GT(two, 2 * 4000);
  for (int64_t i = 2; i < 50; ++i) {
    EXPECT_EQ(stream.space(), 1);
    push(i);
    EXPECT_EQ(stream.space(), 0);
    EXPECT_EQ(stream.waiting(), 3);
    const TokenChunk chunk = stream.Take(1);
    ASSERT_EQ(chunk.introspections.size(), 1u);
    EXPECT_EQ(chunk.introspections[0].state_norms[0], static_cast<float>(i - 2));
    EXPECT_EQ(account->bytes(), two);
  }
  EXPECT_EQ(stream.Take().introspections.size(), 2u);
  EXPECT_EQ(account->bytes(), 0);
}

}  // namespace
}  // namespace mnemon
