// SPDX-License-Identifier: MIT
// A call whose stream is lost and resumed, again and again and in every way, gives what
// an undisturbed twin gives, and leaves its session as that does.
#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "model/text/stop_text.h"
#include "tests/server/engine/await_answer.h"
#include "tests/server/engine/engine_fixture.h"

namespace mnemon {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// Tokens of one to three bytes, some of them parts of characters.
class PieceTokenizer final : public Tokenizer {
 public:
  PieceTokenizer() {
    const std::string pieces[] = {"a", "b", "ab", "ba", "\xe2", "\x82", "\xac", "bab"};
    for (int64_t i = 0; i < ToyDecoder::kVocab; ++i) bytes_.push_back(pieces[i % 8]);
  }
  int32_t size() const override { return ToyDecoder::kVocab; }
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view) const override {
    return absl::UnimplementedError("only decodes");
  }
  std::string_view TokenBytes(int32_t token) const override { return bytes_[token]; }
  std::string Describe() const override { return ""; }
  std::string ToJson() const override { return ""; }

 private:
  std::vector<std::string> bytes_;
};

std::string Uuid(int number) {
  const std::string digits = StrCat(number);
  return "00000000-0000-4000-8000-" + std::string(12 - digits.size(), '0') + digits;
}

// What one stream gave.
struct Given {
  std::optional<StartFacts> start;
  int64_t first_index = -1;  // of tokens[0]
  std::vector<int32_t> tokens;
  std::vector<TokenLogprobs> logprobs;
  std::string text;
  bool finished = false;
  absl::Status status;
  std::optional<FinishFacts> finish;
};

class Consumer {
 public:
  Consumer(Engine& engine, const GenerateRequest& request)
      : signal_(std::make_shared<ReadySignal>()) {
    auto made = engine.Generate(request, [signal = signal_] { signal->Raise(); });
    if (made.ok()) {
      stream_ = *std::move(made);
    } else {
      given_.finished = true;
      given_.status = made.status();
    }
  }

  TokenStream& stream() { return *stream_; }
  const Given& given() const { return given_; }
  // Takes until it has `count` tokens or the end.
  const Given& Read(size_t count) {
    while (!given_.finished && given_.tokens.size() < count) {
      const auto most = static_cast<int64_t>(count - given_.tokens.size());
      TokenChunk chunk = stream_->Take(std::min<int64_t>(most, 1000));
      if (!chunk.finished && chunk.tokens.empty()) {
        if (!signal_->Await()) {
          ADD_FAILURE() << "nothing came";
          given_.finished = true;
        }
        continue;
      }
      if (chunk.start) given_.start = chunk.start;
      if (given_.first_index < 0) given_.first_index = chunk.first_index;
      EXPECT_EQ(chunk.first_index,
                given_.first_index + static_cast<int64_t>(given_.tokens.size()));
      given_.tokens = Joined(std::move(given_.tokens), chunk.tokens);
      std::move(chunk.logprobs.begin(), chunk.logprobs.end(),
                std::back_inserter(given_.logprobs));
      given_.text += chunk.text;
      given_.finished = chunk.finished;
      given_.status = chunk.status;
      given_.finish = chunk.finish;
    }
    return given_;
  }
  const Given& ReadAll() { return Read(size_t{1} << 40); }

 private:
  const std::shared_ptr<ReadySignal> signal_;
  std::shared_ptr<TokenStream> stream_;
  Given given_;
};

GenerateRequest ResumeOf(const GenerateRequest& request, int64_t after) {
  return {.session = request.session,
          .request_id = request.request_id,
          .resume_after = after};
}

class EngineResume : public testing::TestWithParam<ToyState> {
 protected:
  static Engine::Options Options() { return {.sessions = 64, .running = 4}; }

  EngineResume() {
    for (ToyServer* server : {&server_, &twin_}) {
      for (const char* const id : {"s", "n"}) server->CreateSession(id);
    }
  }

  size_t Draw(size_t below) { return random_() % below; }

  GenerateRequest RandomRequest(bool empty_history) {
    GenerateRequest request =
        Ask(Tokens((empty_history ? 1 : 0) + Draw(Draw(4) == 0 ? 200 : 8), random_()),
            static_cast<int32_t>(Draw(8) == 0 ? 0 : 1 + Draw(200)), "s");
    request.seed = random_();
    request.request_id = Uuid(++calls_);
    if (Draw(2)) {
      request.sampling.repetition_penalty = 1.5;
      request.sampling.frequency_penalty = 0.3;
      request.sampling.penalty_window_tokens = 30;
    }
    if (Draw(3) == 0) request.stop_strings = {"babbab", "\xe2\x82\xac\xe2\x82\xac"};
    if (Draw(4) == 0) request.stop_tokens = {static_cast<int32_t>(Draw(32))};
    if (Draw(3) == 0) {
      request.logprobs = {.wanted = true, .candidates = {.most_likely = 2, .ids = {3}}};
    }
    if (Draw(2)) request.on_disconnect = OnDisconnect::kContinue;
    return request;
  }

  // Bytes of the text that `tokens` give.
  size_t TextOf(const GenerateRequest& request, std::span<const int32_t> tokens) {
    Utf8Stream utf8;
    StopText stop(request.stop_strings);
    size_t bytes = 0;
    for (const int32_t token : tokens) {
      bytes += stop.Push(utf8.Push(tokenizer_.TokenBytes(token))).size();
    }
    return bytes;
  }

  // A stream of the call that resumes after `had` tokens, whatever else comes.
  std::unique_ptr<Consumer> Attach(const GenerateRequest& request, size_t had,
                                   int64_t prompt_end) {
    while (true) {
      GenerateRequest again = request;
      if (had > 0 || Draw(2)) {
        const auto after = static_cast<int64_t>(had) + prompt_end - 1;
        again = ResumeOf(request, had > 0 || Draw(2) ? after : -1);
      }
      auto consumer = std::make_unique<Consumer>(*server_.engine, again);
      std::string reason = ReasonOf(consumer->Read(Draw(2)).status);
      if (reason == "REQUEST_UNKNOWN" && had == 0) {
        // It was cancelled before it began, and may not be over.
        consumer = std::make_unique<Consumer>(*server_.engine, request);
        reason = ReasonOf(consumer->Read(Draw(2)).status);
      }
      if (reason != "SESSION_BUSY") return consumer;
      std::this_thread::yield();
    }
  }

  // `lost`: no stream is attached.
  void Disturb(bool lost) {
    switch (Draw(6)) {
      case 0:
        EXPECT_TRUE(server_.Run(Ask(Tokens(3, random_()), 5, "n")).status.ok());
        break;
      case 1:
        if (lost) server_.AwaitIdle();
        break;
      case 2:
        EXPECT_TRUE(server_.engine
                        ->ForkSession({.session = "s"},
                                      [](const absl::StatusOr<SessionFacts>&) {})
                        .ok());
        break;
      default:
        break;
    }
  }

  void ExpectPrefix(const Given& expected, const Given& got) {
    ASSERT_LE(got.tokens.size(), expected.tokens.size());
    EXPECT_TRUE(
        std::equal(got.tokens.begin(), got.tokens.end(), expected.tokens.begin()));
    ASSERT_EQ(got.logprobs.size(), expected.logprobs.empty() ? 0 : got.tokens.size());
    EXPECT_TRUE(std::equal(got.logprobs.begin(), got.logprobs.end(),
                           expected.logprobs.begin()));
    EXPECT_EQ(got.text, expected.text.substr(0, got.text.size()));
  }

  // Runs the call with interruptions. Whether it came to its end; else sets the tokens
  // of the history up to the last that was received, and up to the last delivered.
  bool RunCutOff(const GenerateRequest& request, const Given& expected, int64_t& least,
                 int64_t& most) {
    const int64_t prompt_end =
        expected.start->first_index + expected.start->prompt_tokens;
    Given got;
    std::vector<std::unique_ptr<Consumer>> left;  // still attached, as they believe
    auto consumer = std::make_unique<Consumer>(*server_.engine, request);
    for (int i = 0; i < 200; ++i) {
      const size_t had = got.tokens.size();
      const Given& given =
          Draw(8) == 0 ? consumer->ReadAll()
                       : consumer->Read(Draw(3) == 0 ? 0 : Draw(Draw(3) ? 10 : 90));
      if (ReasonOf(given.status) == "SESSION_BUSY") {
        // The stream before it has not begun.
        EXPECT_THAT(given.tokens, IsEmpty());
        consumer = Attach(request, had, prompt_end);
        continue;
      }
      if (given.finished && !given.status.ok()) {
        ADD_FAILURE() << given.status;
        return true;
      }
      if (given.start) {
        EXPECT_EQ(given.start->first_index, expected.start->first_index);
        EXPECT_EQ(given.start->prompt_tokens, expected.start->prompt_tokens);
        EXPECT_EQ(given.start->seed, request.seed);
      }
      if (!given.tokens.empty()) {
        EXPECT_EQ(given.first_index, prompt_end + static_cast<int64_t>(had));
      }
      got.tokens = Joined(std::move(got.tokens), given.tokens);
      got.logprobs.insert(got.logprobs.end(), given.logprobs.begin(),
                          given.logprobs.end());
      got.text += given.text;
      ExpectPrefix(expected, got);
      if (HasFailure()) return true;
      if (!got.tokens.empty() || given.finished) {
        least = prompt_end + static_cast<int64_t>(got.tokens.size());
        most = std::max(most, least);
      }
      if (given.finished) {
        EXPECT_EQ(got.tokens, expected.tokens);
        EXPECT_EQ(got.text, expected.text);
        EXPECT_TRUE(given.finish);
        if (!given.finish) return true;
        EXPECT_EQ(given.finish->reason, expected.finish->reason);
        EXPECT_EQ(given.finish->stop_token, expected.finish->stop_token);
        EXPECT_EQ(given.finish->stop_string, expected.finish->stop_string);
        EXPECT_EQ(given.finish->generated_tokens, expected.finish->generated_tokens);
        if (Draw(2)) return true;
      }
      const bool lost = !given.finished && Draw(2);
      if (lost) consumer->stream().Cancel();
      Disturb(lost);
      if (!given.finished && Draw(12) == 0) {
        consumer->stream().Cancel();
        return false;
      }
      // After an index that the client has received, perhaps an earlier one.
      size_t keep = got.tokens.size();
      if (Draw(4) == 0) keep = Draw(keep + 1);
      got.tokens.resize(keep);
      got.logprobs.resize(std::min(got.logprobs.size(), keep));
      got.text.resize(TextOf(request, got.tokens));
      const auto note = [&](const Given& had) {
        if (had.tokens.empty()) return;
        most =
            std::max(most, had.first_index + static_cast<int64_t>(had.tokens.size()));
      };
      left.push_back(std::move(consumer));
      consumer = Attach(request, keep, prompt_end);
      for (auto& old : left) {
        if (old->given().finished) continue;
        // One that gives again what came to its end is no call.
        const absl::Status end = old->ReadAll().status;
        EXPECT_TRUE(end.ok() || absl::IsCancelled(end) ||
                    ReasonOf(end) == "STREAM_RESUMED" ||
                    ReasonOf(end) == "SESSION_BUSY")
            << end;
        note(old->given());
      }
      left.clear();
    }
    ADD_FAILURE() << "no end";
    return true;
  }

  std::mt19937 random_{static_cast<uint32_t>(GetParam()) + 7};
  PieceTokenizer tokenizer_;
  ToyServer server_{GetParam(), Options(), 8192, &tokenizer_};
  ToyServer twin_{GetParam(), Options(), 8192, &tokenizer_};
  int calls_ = 0;
};

TEST_P(EngineResume, RandomInterruptionsChangeNothing) {
  for (int turn = 0; turn < 40; ++turn) {
    SCOPED_TRACE(turn);
    const int64_t before = twin_.Position("s");
    ASSERT_EQ(server_.Position("s"), before);
    if (before > 3000) break;
    const GenerateRequest request = RandomRequest(before == 0);
    const Given expected = Consumer(*twin_.engine, request).ReadAll();
    ASSERT_TRUE(expected.status.ok()) << expected.status;
    int64_t least = before, most = before;
    if (RunCutOff(request, expected, least, most)) {
      ASSERT_FALSE(HasFailure());
      EXPECT_EQ(server_.Position("s"), twin_.Position("s"));
      continue;
    }
    // Another call ends it at a token that was delivered.
    GenerateRequest other = Ask({1, 2}, 3, "s");
    Given given;
    do {
      given = Consumer(*server_.engine, other).ReadAll();
    } while (ReasonOf(given.status) == "SESSION_BUSY");
    ASSERT_TRUE(given.status.ok()) << given.status;
    const int64_t at = given.start->first_index;
    const int64_t all = before + static_cast<int64_t>(expected.tokens.size()) +
                        expected.start->prompt_tokens;
    // One that goes on may have come to its end.
    if (request.on_disconnect == OnDisconnect::kPause || at != all) {
      EXPECT_GE(at, least);
      EXPECT_LE(at, most);
    }
    ASSERT_TRUE(AwaitAnswer<SessionFacts>([&](auto done) {
                  return twin_.engine->RewindSession(
                      {.session = "s", .target = at, .etag = ""}, std::move(done));
                }).ok());
    EXPECT_EQ(given.tokens, Consumer(*twin_.engine, other).ReadAll().tokens);
    ASSERT_FALSE(HasFailure());
  }
}

INSTANTIATE_TEST_SUITE_P(States, EngineResume, testing::ValuesIn(kToyStates),
                         [](const auto& info) { return ToyName(info.param); });

GenerateRequest AskAs(int id, std::vector<int32_t> prompt, int32_t max_tokens) {
  GenerateRequest request = Ask(std::move(prompt), max_tokens, "s");
  request.request_id = Uuid(id);
  return request;
}

struct ResumeServer : ToyServer {
  explicit ResumeServer(Engine::Options options = {})
      : ToyServer(ToyState::kFixedAndAppend, options) {
    CreateSession("s");
  }
  SessionState State() { return engine->GetSession("s")->state; }
};

TEST(EngineResumeCalls, ADetachedSessionSaysSo) {
  ResumeServer server;
  server.decoder.Allow(10);
  Reader reader(*server.engine, AskAs(1, {1, 2}, 30));
  reader.Next();
  reader.stream().Cancel();
  server.decoder.AllowAll();
  server.AwaitIdle();
  EXPECT_EQ(server.State(), SessionState::kDetached);
  ASSERT_TRUE(
      server.engine->UpdateSession({.session = "s", .settings = {.paused = true}})
          .ok());
  EXPECT_EQ(server.State(), SessionState::kPaused);
  ASSERT_TRUE(
      server.engine->UpdateSession({.session = "s", .settings = {.paused = false}})
          .ok());
  const Outcome outcome = server.Run(ResumeOf(AskAs(1, {}, 0), -1));
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_THAT(outcome.tokens, SizeIs(30));
  EXPECT_EQ(server.State(), SessionState::kIdle);
}

TEST(EngineResumeCalls, WithoutItsIdACallIsCutAndEnds) {
  ResumeServer server;
  server.decoder.Allow(10);
  Reader reader(*server.engine, Ask({1, 2}, 30, "s"));
  reader.Next();
  reader.stream().Cancel();
  server.decoder.AllowAll();
  server.AwaitIdle();
  EXPECT_EQ(server.State(), SessionState::kIdle);
}

TEST(EngineResumeCalls, OneThatGoesOnComesToItsEnd) {
  ResumeServer server;
  GenerateRequest request = AskAs(1, {1, 2}, 300);
  request.on_disconnect = OnDisconnect::kContinue;
  server.decoder.Allow(5);
  Reader reader(*server.engine, request);
  reader.Next();
  reader.stream().Cancel();
  server.decoder.AllowAll();
  EXPECT_TRUE(absl::IsCancelled(reader.Finish().status));
  server.AwaitIdle();
  EXPECT_EQ(server.State(), SessionState::kIdle);
  EXPECT_EQ(server.Position("s"), 302);
  const int64_t before = server.engine->Stats().tokens_computed;
  EXPECT_EQ(server.Run(ResumeOf(request, -1)).tokens,
            ToyContinuation(ToyState::kFixedAndAppend, {1, 2}, 300, AskedSampling()));
  EXPECT_EQ(server.engine->Stats().tokens_computed, before);
}

TEST(EngineResumeCalls, AnotherCallCutsOneThatGoesOn) {
  for (const bool rewind : {false, true}) {
    for (const bool delivered : {false, true}) {
      ResumeServer server;
      GenerateRequest request = AskAs(1, {1, 2}, 1000);
      request.on_disconnect = OnDisconnect::kContinue;
      server.decoder.Allow(3);
      Reader reader(*server.engine, request);
      server.decoder.AwaitHeld();
      const auto had =
          static_cast<int64_t>(delivered ? reader.Next().tokens.size() : 0);
      reader.stream().Cancel();
      server.decoder.Allow(40);
      EXPECT_TRUE(absl::IsCancelled(reader.Finish().status));
      server.decoder.AllowAll();
      const int64_t expected = delivered ? 2 + had : 0;
      if (rewind) {
        ASSERT_TRUE(AwaitAnswer<SessionFacts>([&](auto done) {
                      return server.engine->RewindSession(
                          {.session = "s", .target = expected, .etag = ""},
                          std::move(done));
                    }).ok());
        EXPECT_EQ(server.Position("s"), expected);
        EXPECT_EQ(server.State(), SessionState::kIdle);
      } else {
        const Outcome other = server.Run(Ask({7}, 2, "s"));
        ASSERT_TRUE(other.status.ok()) << other.status;
        EXPECT_EQ(other.start->first_index, expected);
      }
      EXPECT_EQ(ReasonOf(server.Run(ResumeOf(request, -1)).status),
                delivered ? "REQUEST_REPEATED" : "REQUEST_UNKNOWN");
    }
  }
}

TEST(EngineResumeCalls, RefusesWhatItDoesNotKnow) {
  ResumeServer server;
  const GenerateRequest first = AskAs(1, {1, 2}, 3);
  ASSERT_TRUE(server.Run(first).status.ok());
  GenerateRequest other = AskAs(1, {1, 2}, 4);
  absl::Status status = server.Run(other).status;
  EXPECT_TRUE(absl::IsAlreadyExists(status));
  EXPECT_EQ(ReasonOf(status), "REQUEST_ID_REUSED");
  status = server.Run(ResumeOf(AskAs(2, {}, 0), -1)).status;
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(ReasonOf(status), "REQUEST_UNKNOWN");
  for (const int64_t after : {0, 5, -2}) {
    status = server.Run(ResumeOf(first, after)).status;
    EXPECT_TRUE(absl::IsOutOfRange(status)) << after;
    EXPECT_EQ(ReasonOf(status), "INDEX_OUT_OF_RANGE");
    EXPECT_EQ(GetErrorDetail(status)->metadata["first"], "1");
    EXPECT_EQ(GetErrorDetail(status)->metadata["last"], "4");
  }
  EXPECT_THAT(server.Run(ResumeOf(first, 4)).tokens, IsEmpty());
  EXPECT_THAT(server.Run(ResumeOf(first, 1)).tokens, SizeIs(3));
  EXPECT_EQ(server.Position("s"), 5);
  ASSERT_TRUE(server.Run(AskAs(3, {1}, 1)).status.ok());
  EXPECT_EQ(ReasonOf(server.Run(first).status), "REQUEST_REPEATED");
  EXPECT_EQ(ReasonOf(server.Run(ResumeOf(first, -1)).status), "REQUEST_REPEATED");
  GenerateRequest nameless = ResumeOf(first, -1);
  nameless.session = "";
  EXPECT_EQ(FieldOf(server.Run(nameless).status), "session");
  nameless = ResumeOf(first, -1);
  nameless.request_id = "";
  EXPECT_EQ(FieldOf(server.Run(nameless).status), "request_id");
}

TEST(EngineResumeCalls, AHistoryOfAnotherLengthIsRefused) {
  ResumeServer server;
  GenerateRequest request = AskAs(1, {1, 2}, 3);
  request.expected_position = 0;
  ASSERT_TRUE(server.Run(request).status.ok());
  GenerateRequest next = AskAs(2, {1}, 3);
  next.expected_position = 4;
  const absl::Status status = server.Run(next).status;
  EXPECT_TRUE(absl::IsAborted(status));
  EXPECT_EQ(ReasonOf(status), "TOKEN_COUNT_MISMATCH");
  EXPECT_EQ(GetErrorDetail(status)->metadata["token_count"], "5");
  // It has changed nothing, and a repetition of the first call is none.
  EXPECT_TRUE(server.Run(request).status.ok());
  next.expected_position = 5;
  EXPECT_TRUE(server.Run(next).status.ok());
}

TEST(EngineResumeCalls, AnErrorBeforeTheFirstTokenIsForgotten) {
  ResumeServer server;
  const GenerateRequest request = AskAs(1, {1, ToyDecoder::kNotANumber}, 30);
  const Outcome first = server.Run(request);
  EXPECT_EQ(GetErrorDetail(first.status)->metadata["prompt_taken"], "false");
  EXPECT_EQ(server.Position("s"), 0);
  EXPECT_EQ(server.State(), SessionState::kIdle);
  EXPECT_EQ(ReasonOf(server.Run(ResumeOf(request, -1)).status), "REQUEST_UNKNOWN");
}

TEST(EngineResumeCalls, AnIdleCallerMayComeBack) {
  ResumeServer server({.idle_timeout = std::chrono::milliseconds(5000)});
  Reader reader(*server.engine, AskAs(1, {1, 2}, 200));
  const size_t had = reader.Next().tokens.size();
  while (reader.stream().space() > 0) std::this_thread::yield();
  while (server.engine->Stats().models[0].stalled == 0) std::this_thread::yield();
  server.clock.Advance(std::chrono::milliseconds(6000));
  while (server.State() != SessionState::kDetached) std::this_thread::yield();
  EXPECT_EQ(ReasonOf(reader.Finish().status), "CALLER_IDLE");
  const Outcome rest =
      server.Run(ResumeOf(AskAs(1, {}, 0), 1 + static_cast<int64_t>(had)));
  EXPECT_EQ(Joined(reader.so_far().tokens, rest.tokens),
            ToyContinuation(ToyState::kFixedAndAppend, {1, 2}, 200, AskedSampling()));
}

}  // namespace
}  // namespace mnemon
