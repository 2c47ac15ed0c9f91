// SPDX-License-Identifier: MIT
// The events that an engine reports to its observer, on a clock that the test moves.
#include <mutex>
#include <thread>

#include "base/strings.h"
#include "server/requests/observer.h"
#include "tests/fakes/patience.h"
#include "tests/server/engine/await_answer.h"
#include "tests/server/engine/engine_fixture.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kRequest[] = "6f1c2d3e-0000-4000-8000-000000000001";
constexpr char kOtherRequest[] = "6f1c2d3e-0000-4000-8000-000000000002";

// Records all events, times in milliseconds.
class Notes final : public EngineObserver {
 public:
  void OnStep(size_t model, int64_t sessions, Seconds) override {
    Note(StrCat("step ", model, " ", sessions));
  }
  void OnRefused(std::optional<size_t> model, const absl::Status& status) override {
    Note(StrCat("refused ", model ? StrCat(*model) : "-", " ", ReasonOf(status)));
  }
  void OnAdmitted(size_t model, const StartFacts& facts, Seconds queued) override {
    Note(StrCat("admitted ", model, " prompt ", facts.prompt_tokens, " resumed ",
                facts.resumed_tokens, " after ", Ms(queued)));
  }
  void OnFirstToken(size_t model, Seconds since_taken,
                    Seconds since_admitted) override {
    Note(StrCat("first ", model, " ", Ms(since_taken), " ", Ms(since_admitted)));
  }
  void OnNextToken(size_t model, Seconds since_last) override {
    Note(StrCat("next ", model, " ", Ms(since_last)));
  }
  void OnStall(size_t model, Seconds stalled) override {
    Note(StrCat("stall ", model, " ", Ms(stalled)));
  }
  void OnEnded(size_t model, const RequestEnd& end) override {
    Note(StrCat("ended ", model, " ", absl::StatusCodeToString(end.status.code()), " ",
                Ms(end.total), " ", end.decode ? StrCat(Ms(*end.decode)) : "-"));
  }

  void OnResumed(size_t model) override { Note(StrCat("resumed ", model)); }
  void OnSessionEvent(SessionEvent event) override {
    static constexpr const char* kNames[] = {"create",     "fork",   "rewind",
                                             "checkpoint", "export", "import",
                                             "expire",     "verify", "verify_fail"};
    Note(StrCat("session ", kNames[static_cast<size_t>(event)]));
  }
  void OnRestored(SessionTier, Seconds) override { Note("restored"); }

  // All but steps.
  std::vector<std::string> Heard() const {
    std::lock_guard lock(mutex_);
    std::vector<std::string> heard;
    for (const std::string& note : notes_) {
      if (note.rfind("step", 0) != 0) heard.push_back(note);
    }
    return heard;
  }
  // What happened to sessions since the last time.
  std::vector<std::string> TakeEvents() {
    std::lock_guard lock(mutex_);
    std::vector<std::string> events;
    for (const std::string& note : notes_) {
      if (note.rfind("session ", 0) == 0) events.push_back(note.substr(8));
    }
    notes_.clear();
    return events;
  }
  std::vector<std::string> All() const {
    std::lock_guard lock(mutex_);
    return notes_;
  }
  void Forget() {
    std::lock_guard lock(mutex_);
    notes_.clear();
  }

 private:
  static int64_t Ms(Seconds time) {
    return std::chrono::duration_cast<milliseconds>(time + Seconds(1e-6)).count();
  }
  void Note(std::string note) {
    std::lock_guard lock(mutex_);
    notes_.push_back(std::move(note));
  }
  mutable std::mutex mutex_;
  std::vector<std::string> notes_;  // guarded by mutex_
};

struct Watched {
  explicit Watched(Engine::Options options = {}) {
    options.observer = notes;
    server = std::make_unique<ToyServer>(ToyState::kFixedAndAppend, options);
  }
  std::shared_ptr<Notes> notes = std::make_shared<Notes>();
  std::unique_ptr<ToyServer> server;
};

TEST(Observer, TimesOfARequest) {
  Watched watched;
  ToyServer& server = *watched.server;
  server.decoder.Allow(0);
  Reader reader(*server.engine, Ask({1, 2, 3}, 3));
  server.decoder.AwaitHeld();
  server.clock.Advance(milliseconds(30));
  server.decoder.Allow(1);
  reader.Next();
  server.decoder.AwaitHeld();
  server.clock.Advance(milliseconds(7));
  server.decoder.AllowAll();
  reader.Finish();
  server.AwaitIdle();
  EXPECT_THAT(watched.notes->Heard(),
              ElementsAre("admitted 0 prompt 3 resumed 0 after 0", "first 0 30 30",
                          "next 0 7", "next 0 0", "ended 0 OK 37 7"));
}

// A session's call that has computed all, and a stream that was full.
TEST(Observer, AnIdleCallerEndsACallOnce) {
  Watched watched({.idle_timeout = milliseconds(500)});
  ToyServer& server = *watched.server;
  for (const int tokens : {20, 100}) {
    server.CreateSession(StrCat(tokens));
    Reader reader(*server.engine, Ask({1}, tokens, StrCat(tokens)));
    if (tokens < 64) server.AwaitIdle();
    while (tokens > 64 && server.engine->Stats().models[0].stalled == 0) {
      std::this_thread::yield();
    }
    server.clock.Advance(milliseconds(500));
    while (!reader.stream().cancelled()) std::this_thread::yield();
    EXPECT_EQ(ReasonOf(reader.Finish().status), "CALLER_IDLE");
  }
  server.AwaitIdle();
  const auto heard = watched.notes->Heard();
  EXPECT_THAT(heard, Contains(StartsWith("ended")).Times(2));
  EXPECT_THAT(heard, Contains("ended 0 OK 0 -"));
  EXPECT_THAT(heard, Contains("ended 0 ABORTED 500 -"));
  EXPECT_THAT(heard, Contains("stall 0 500"));
}

TEST(Observer, WaitingCountsAsQueueTime) {
  Watched watched({.running = 1});
  ToyServer& server = *watched.server;
  server.decoder.Allow(0);
  Reader first(*server.engine, Ask({1}, 1));
  server.decoder.AwaitHeld();
  Reader second(*server.engine, Ask({1}, 1));
  server.clock.Advance(milliseconds(50));
  server.decoder.AllowAll();
  first.Finish();
  second.Finish();
  server.AwaitIdle();
  EXPECT_THAT(watched.notes->Heard(),
              Contains("admitted 0 prompt 1 resumed 0 after 50"));
  EXPECT_THAT(watched.notes->Heard(), Contains("first 0 50 0"));
}

TEST(Observer, ASessionsStateIsSavedWork) {
  Watched watched;
  ToyServer& server = *watched.server;
  server.CreateSession("s");
  server.Run(Ask({1, 2, 3}, 4, "s"));
  server.AwaitIdle();
  watched.notes->Forget();
  server.Run(Ask({5}, 1, "s"));
  server.AwaitIdle();
  // Seven tokens are in the history, the last of which no step has computed yet.
  EXPECT_THAT(watched.notes->Heard(),
              Contains("admitted 0 prompt 1 resumed 6 after 0"));
}

// A call that scores takes part in steps, but generates nothing.
TEST(Observer, ScoringIsNoRequest) {
  Watched watched;
  ToyServer& server = *watched.server;
  auto call = server.engine->Score({}, [] {});
  ASSERT_TRUE(call.ok()) << call.status();
  ASSERT_TRUE(call->append(std::vector<int32_t>{1, 2, 3}).ok());
  call->close();
  server.AwaitIdle();
  EXPECT_TRUE(call->stream->Take().finished);
  EXPECT_THAT(watched.notes->Heard(), IsEmpty());
  EXPECT_THAT(watched.notes->All(), Contains(StartsWith("step 0 1")));
}

TEST(Observer, BatchesAreCounted) {
  Watched watched;
  ToyServer& server = *watched.server;
  server.decoder.Allow(0);
  Reader alone(*server.engine, Ask({1}, 3));
  server.decoder.AwaitHeld();
  Reader a(*server.engine, Ask({1}, 1));
  Reader b(*server.engine, Ask({2}, 1));
  server.decoder.AllowAll();
  alone.Finish();
  a.Finish();
  b.Finish();
  server.AwaitIdle();
  EXPECT_THAT(watched.notes->All(), Contains("step 0 1"));
  EXPECT_THAT(watched.notes->All(), Contains("step 0 3"));
}

TEST(Observer, RecordedRefusalsSayWhy) {
  Watched watched({.running = 1, .max_queue = 0});
  ToyServer& server = *watched.server;
  Engine& engine = *server.engine;
  const auto refused = [&](const GenerateRequest& request) {
    const auto stream = engine.Generate(request, [] {});
    EXPECT_FALSE(stream.ok());
    engine.RecordRefusal(request, stream.status());
  };
  GenerateRequest absent = Ask({1}, 1);
  absent.model = "absent";
  refused(absent);
  refused(Ask({-1}, 1));
  refused(Ask({1}, 1, "absent"));
  server.decoder.Allow(0);
  Reader running(engine, Ask({1}, 1));
  server.decoder.AwaitHeld();
  refused(Ask({1}, 1));
  engine.RecordRefusal(
      {}, MakeError(absl::StatusCode::kInvalidArgument, "", {.reason = "BEFORE"}));
  engine.Drain();
  refused(Ask({1}, 1));
  std::vector<std::string> heard;
  for (const std::string& note : watched.notes->Heard()) {
    if (note.rfind("refused", 0) == 0) heard.push_back(note);
  }
  EXPECT_THAT(heard, ElementsAre("refused - MODEL_NOT_FOUND", "refused 0 INVALID_VALUE",
                                 "refused 0 SESSION_NOT_FOUND", "refused 0 QUEUE_FULL",
                                 "refused 0 BEFORE", "refused 0 DRAINING"));
}

TEST(Observer, GenerateRecordsNoRefusal) {
  Watched watched;
  EXPECT_FALSE(watched.server->engine->Generate(Ask({-1}, 1), [] {}).ok());
  EXPECT_THAT(watched.notes->Heard(), IsEmpty());
}

TEST(Observer, AReaderThatDoesNotReadIsAStall) {
  Watched watched;
  ToyServer& server = *watched.server;
  Reader reader(*server.engine, Ask({1}, 100));
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (reader.stream().space() > 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::yield();
  }
  while (server.engine->Stats().models[0].stalled == 0) std::this_thread::yield();
  server.clock.Advance(milliseconds(2500));
  reader.Finish();
  server.AwaitIdle();
  EXPECT_EQ(server.engine->Stats().models[0].stalled, 0);
  EXPECT_THAT(watched.notes->Heard(), Contains("stall 0 2500"));
}

TEST(Observer, FailuresAndCancelsEndOnce) {
  Watched watched;
  ToyServer& server = *watched.server;
  server.Run(Ask({1, ToyDecoder::kFailing}, 5));
  server.AwaitIdle();
  EXPECT_THAT(watched.notes->Heard(),
              ElementsAre(StartsWith("admitted"), "ended 0 INTERNAL 0 -"));
  watched.notes->Forget();
  server.decoder.Allow(0);
  Reader reader(*server.engine, Ask({1}, 5));
  server.decoder.AwaitHeld();
  reader.stream().Cancel();
  server.decoder.AllowAll();
  server.AwaitIdle();
  const auto heard = watched.notes->Heard();
  EXPECT_THAT(heard, Contains("ended 0 CANCELLED 0 -"));
  EXPECT_EQ(std::count_if(heard.begin(), heard.end(),
                          [](const auto& n) { return n.rfind("ended", 0) == 0; }),
            1);
}

TEST(Observer, StatsOfAModel) {
  Watched watched({.running = 2});
  ToyServer& server = *watched.server;
  server.CreateSession("s");
  server.decoder.Allow(0);
  Reader named(*server.engine, Ask({1}, 3, "s"));
  Reader stateless(*server.engine, Ask({1}, 3));
  server.decoder.AwaitHeld();
  Reader waits(*server.engine, Ask({1}, 3));
  EngineStats stats = server.engine->Stats();
  ASSERT_EQ(stats.models.size(), 1u);
  EXPECT_EQ(stats.models[0].model, "toy");
  EXPECT_EQ(stats.models[0].running, 2);
  EXPECT_EQ(stats.models[0].waiting, 1);
  EXPECT_EQ(stats.models[0].sessions_queued + stats.models[0].sessions_running, 1);
  EXPECT_GT(stats.models[0].state_capacity_bytes, 0);
  EXPECT_FALSE(stats.draining);
  server.decoder.AllowAll();
  named.Finish();
  stateless.Finish();
  waits.Finish();
  server.AwaitIdle();
  stats = server.engine->Stats();
  EXPECT_EQ(stats.models[0].running, 0);
  EXPECT_EQ(stats.models[0].sessions_running, 0);
  EXPECT_GT(stats.models[0].state_bytes, 0);
  EXPECT_LE(stats.models[0].state_bytes, stats.models[0].state_capacity_bytes);
}

// Each once, whatever is repeated or refused.
TEST(Observer, WhatHappensToSessions) {
  Watched watched;
  ToyServer& server = *watched.server;
  Engine& engine = *server.engine;
  for (int repetition = 0; repetition < 2; ++repetition) {
    ASSERT_TRUE(engine.CreateSession({.id = "s", .request_id = kRequest}).ok());
  }
  EXPECT_FALSE(engine.CreateSession({.id = "s"}).ok());
  EXPECT_THAT(watched.notes->TakeEvents(), ElementsAre("create"));
  server.Run(Ask({1, 2, 3}, 4, "s"));
  server.AwaitIdle();
  for (int repetition = 0; repetition < 2; ++repetition) {
    ASSERT_TRUE(AwaitAnswer<SessionFacts>([&](auto done) {
                  return engine.ForkSession(
                      {.session = "s", .id = "f", .request_id = kOtherRequest},
                      std::move(done));
                }).ok());
  }
  EXPECT_THAT(watched.notes->TakeEvents(), ElementsAre("fork"));
  for (int repetition = 0; repetition < 2; ++repetition) {
    ASSERT_TRUE(AwaitAnswer<CheckpointFacts>([&](auto done) {
                  return engine.CheckpointSession(
                      {.session = "s", .id = "c", .request_id = kRequest},
                      std::move(done));
                }).ok());
  }
  EXPECT_THAT(watched.notes->TakeEvents(), ElementsAre("checkpoint"));
  ASSERT_TRUE(AwaitAnswer<SessionFacts>([&](auto done) {
                return engine.RewindSession({.session = "s", .target = 5},
                                            std::move(done));
              }).ok());
  ASSERT_FALSE(AwaitAnswer<SessionFacts>([&](auto done) {
                 return engine.RewindSession({.session = "s", .target = 500},
                                             std::move(done));
               }).ok());
  EXPECT_THAT(watched.notes->TakeEvents(), ElementsAre("rewind"));
  const auto exported = AwaitAnswer<ExportedSession>(
      [&](auto done) { return engine.ExportSession("s", std::move(done)); });
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_THAT(watched.notes->TakeEvents(), ElementsAre("export"));
  for (const char* id : {"i", "i"}) {
    static_cast<void>(AwaitAnswer<SessionFacts>([&](auto done) {
      return engine.ImportSession({.id = id, .snapshot = exported->snapshot},
                                  std::move(done));
    }));
  }
  EXPECT_THAT(watched.notes->TakeEvents(), ElementsAre("import"));
  const auto verified = AwaitAnswer<VerifiedSession>([&](auto done) {
    return engine.VerifySession({.session = "i", .replay = true}, std::move(done));
  });
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_THAT(watched.notes->TakeEvents(), ElementsAre("verify"));
}

TEST(Observer, AStreamThatIsTakenUpAgain) {
  Watched watched;
  ToyServer& server = *watched.server;
  server.CreateSession("s");
  GenerateRequest request = Ask({1, 2, 3}, 4, "s");
  request.request_id = kRequest;
  ASSERT_TRUE(server.Run(request).status.ok());
  server.AwaitIdle();
  EXPECT_THAT(watched.notes->Heard(), Not(Contains(StartsWith("resumed"))));
  request.resume_after = 100;
  EXPECT_FALSE(server.Run(request).status.ok());
  request.resume_after = 3;
  ASSERT_TRUE(server.Run(request).status.ok());
  EXPECT_THAT(watched.notes->Heard(), Contains("resumed 0").Times(1));
}

TEST(Observer, ExpiredSessionsAreCounted) {
  Watched watched;
  ToyServer& server = *watched.server;
  ASSERT_TRUE(
      server.engine->CreateSession({.id = "s", .settings = {.ttl = milliseconds(1000)}})
          .ok());
  server.clock.Advance(milliseconds(2000));
  EXPECT_FALSE(server.engine->GetSession("s").ok());
  EXPECT_FALSE(server.engine->GetSession("s").ok());
  EXPECT_THAT(watched.notes->TakeEvents(), ElementsAre("create", "expire"));
}

TEST(Observer, AnEngineWithoutOneWorks) {
  ToyServer server(ToyState::kFixed);
  EXPECT_TRUE(server.Run(Ask({1}, 3)).status.ok());
  EXPECT_FALSE(server.engine->Generate(Ask({-1}, 3), [] {}).ok());
}

}  // namespace
}  // namespace mnemon
