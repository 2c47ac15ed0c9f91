// SPDX-License-Identifier: MIT
// Sessions that sleep and expire beside a store whose reads are slow, fail or hang.
#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/strings.h"
#include "server/durability/stored_journal.h"
#include "server/snapshots/snapshot.h"
#include "tests/fakes/held_store.h"
#include "tests/fakes/silent_observer.h"
#include "tests/server/durability/sleepers.h"
#include "tests/server/durability/stored_server.h"
#include "tests/server/engine/await_answer.h"
#include "tests/server/engine/engine_fixture.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Facts = absl::StatusOr<SessionFacts>;

// Holds those who report an expiry, but for the thread that made it.
class HeldExpiries final : public SilentObserver {
 public:
  void OnSessionEvent(SessionEvent event) override {
    if (event != SessionEvent::kExpire || std::this_thread::get_id() == spared_) return;
    std::unique_lock lock(mutex_);
    held_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  bool AwaitHeld() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [this] { return held_; });
  }
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  const std::thread::id spared_ = std::this_thread::get_id();
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool held_ = false;
  bool open_ = false;
};

class Sleepers : public testing::Test {
 protected:
  static constexpr int kMany = 500;

  ~Sleepers() override {
    if (observer_) observer_->Open();
    store_.Open();
    store_.OpenReads();
  }
  void Start(Engine::Options options = Narrow(ToyState::kFixed, kMiB / 2)) {
    server_.reset();
    options.store = &store_;
    options.observer = observer_;
    server_ = std::make_unique<ToyServer>(ToyState::kFixed, options);
  }
  Engine& engine() { return *server_->engine; }
  // Makes a turn, so that the store has something of it.
  void Make(const std::string& id, std::optional<milliseconds> ttl,
            const std::string& request_id = "") {
    CreateSessionRequest create{.id = id, .request_id = request_id};
    create.settings.ttl = ttl;
    const auto made = engine().CreateSession(create);
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_TRUE(Turn(id).status.ok());
    server_->AwaitIdle();
  }
  // "s0" and so on, more than can be awake.
  void MakeMany() {
    for (int i = 0; i < kMany; ++i) {
      const Facts made =
          Insist([&] { return engine().CreateSession({.id = StrCat("s", i)}); });
      ASSERT_TRUE(made.ok()) << made.status();
    }
  }
  Outcome Turn(const std::string& id) { return server_->Run(Ask({1, 2, 3}, 4, id)); }
  std::string EtagOf(const std::string& id) {
    const Facts facts = engine().GetSession(id);
    return facts.ok() ? facts->etag : "";
  }
  Facts Update(const std::string& id, const std::string& etag) {
    UpdateSessionRequest request{.session = id};
    request.etag = etag;
    request.settings.paused = false;
    return engine().UpdateSession(request);
  }
  std::vector<int32_t> HistoryOf(const std::string& id) {
    const auto exported = AwaitAnswer<ExportedSession>(
        [&](auto done) { return engine().ExportSession(id, std::move(done)); });
    if (!exported.ok()) return {};
    const auto snapshot = DecodeSnapshot(
        exported->snapshot, {.tokens = 1 << 20, .state_bytes = int64_t{1} << 40});
    return snapshot.ok() ? snapshot->tokens : std::vector<int32_t>();
  }

  // Runs on a separate thread, which ends before the engine.
  template <class Work>
  auto Begin(Work work) {
    const auto task =
        std::make_shared<std::packaged_task<decltype(work())()>>(std::move(work));
    threads_.push_back(std::async(std::launch::async, [task] { (*task)(); }));
    return task->get_future();
  }

  HeldStore store_;
  std::shared_ptr<HeldExpiries> observer_;  // may be null
  std::unique_ptr<ToyServer> server_;
  std::vector<std::future<void>> threads_;
};

// Many sessions sleep: when some are read, others fall asleep again.
TEST_F(Sleepers, ReadersWakeNoMoreThanThereIsRoomFor) {
  Start();
  ASSERT_NO_FATAL_FAILURE(MakeMany());
  for (int i = 0; i < kMany; ++i) {
    const std::string id = StrCat("s", i);
    const Facts facts = Insist([&] { return engine().GetSession(id); });
    ASSERT_TRUE(facts.ok()) << facts.status();
    const MemoryStats memory = engine().Stats().memory;
    ASSERT_LE(memory.sessions, memory.sessions_limit) << i;
  }
}

// Prompts that sessions keep for who resumes them leave memory with their sessions.
TEST_F(Sleepers, KeptPromptsMakeWay) {
  constexpr int kSessions = 200;
  const std::vector<int32_t> prompt(2000, 1);
  // The share of what stays is small, and all the rest is far from full.
  Start({.memory_bytes = 8 * kMiB, .call_bytes = 7 * kMiB});
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < kSessions; ++i) {
    const std::string id = StrCat("s", i);
    ASSERT_TRUE(Insist([&] { return engine().CreateSession({.id = id}); }).ok());
    GenerateRequest& request = requests.emplace_back(Ask(prompt, 5, id));
    request.request_id = StrCat("00000000-0000-4000-8000-", 100'000'000'000 + i);
    const auto kept = Insist([&]() -> absl::StatusOr<bool> {
      server_->decoder.Allow(0);
      Reader call(engine(), request);
      if (call.status().ok()) {
        server_->decoder.AwaitHeld();
        call.stream().Cancel();
      }
      server_->decoder.AllowAll();
      if (!call.status().ok()) return call.status();
      const absl::Status end = call.Finish().status;
      if (absl::IsCancelled(end)) return true;
      return end;
    });
    ASSERT_TRUE(kept.ok()) << i << ": " << kept.status();
    server_->AwaitIdle();
  }
  const MemoryStats memory = engine().Stats().memory;
  EXPECT_LE(memory.histories, memory.resting_limit);
  EXPECT_GT(engine().Stats().asleep, kSessions / 2);
  for (const int i : {0, kSessions - 1}) {
    const GenerateRequest again{.session = requests[i].session,
                                .request_id = requests[i].request_id,
                                .resume_after = -1};
    const Outcome outcome = Insist([&] { return server_->Run(again); });
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.tokens,
              ToyContinuation(ToyState::kFixed, prompt, 5, AskedSampling()));
  }
}

// While the store takes nothing, none can fall asleep, and so none wakes beyond that.
TEST_F(Sleepers, NoneWakesWhereThereIsNoRoom) {
  Start();
  ASSERT_NO_FATAL_FAILURE(MakeMany());
  store_.Fail(true);
  EXPECT_FALSE(Update("s0", "").ok());
  int refused = 0;
  for (int i = 0; i < kMany && refused < 3; ++i) {
    const Facts facts = engine().GetSession(StrCat("s", i));
    if (facts.ok()) continue;
    ASSERT_EQ(ReasonOf(facts.status()), "MEMORY_LIMIT") << facts.status();
    ++refused;
  }
  EXPECT_EQ(refused, 3);
  const MemoryStats memory = engine().Stats().memory;
  EXPECT_LE(memory.sessions, memory.sessions_limit);
  store_.Fail(false);
  const Facts facts =
      Insist([&] { return engine().GetSession(StrCat("s", kMany - 1)); });
  EXPECT_TRUE(facts.ok()) << facts.status();
}

// A history that only a checkpoint has leaves memory as one of the session does.
TEST_F(Sleepers, ACheckpointKeepsNoneAwake) {
  Start();
  Make("a", std::nullopt);
  const auto checkpoint =
      AwaitAnswer<CheckpointFacts>([&](OnAnswer<CheckpointFacts> done) {
        return engine().CheckpointSession({.session = "a", .id = "whole"},
                                          std::move(done));
      });
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const std::vector<int32_t> history = HistoryOf("a");
  const auto rewind = [&](std::variant<int64_t, std::string> target) {
    return AwaitAnswer<SessionFacts>([&](OnAnswer<SessionFacts> done) {
      return engine().RewindSession({.session = "a", .target = target},
                                    std::move(done));
    });
  };
  ASSERT_TRUE(rewind(int64_t{0}).ok());
  PutToSleep(engine());
  const Facts back = rewind("whole");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(HistoryOf("a"), history);
}

// What was exported has its place, and its memory, until its reader has taken it.
TEST_F(Sleepers, ExportsCountUntilTheyAreRead) {
  Start();
  Make("a", std::nullopt);
  const auto take = [&] {
    return AwaitAnswer<ExportedSession>(
        [&](auto done) { return engine().ExportSession("a", std::move(done)); });
  };
  std::vector<absl::StatusOr<ExportedSession>> exported;
  int64_t output = 0;
  while (exported.size() < 100) {
    auto one = take();
    if (!one.ok()) {
      EXPECT_EQ(ReasonOf(one.status()), "TRANSFER_LIMIT") << one.status();
      break;
    }
    output += static_cast<int64_t>(one->snapshot.size());
    exported.push_back(std::move(one));
    EXPECT_GE(engine().Stats().memory.output, output);
  }
  EXPECT_EQ(exported.size(), 16u);
  exported.clear();
  EXPECT_EQ(engine().Stats().memory.output, 0);
  EXPECT_TRUE(take().ok());
}

// A snapshot that is no longer named by a record, after that record is lost.
TEST_F(Sleepers, ASnapshotWhoseRecordIsLostGoesWithTheNextOne) {
  Start();
  Make("a", std::nullopt);
  const auto save = [&] {
    return engine().SaveSessions(std::chrono::steady_clock::now() + kPatience);
  };
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(Turn("a").status.ok());
    ASSERT_TRUE(save());
  }
  EXPECT_LE(store_.snapshots(), StoredJournal::kSnapshots);
  ASSERT_TRUE(Turn("a").status.ok());
  server_->AwaitIdle();
  store_.Hold();
  auto saved = Begin(save);
  ASSERT_TRUE(store_.AwaitHeld(kPatience));
  store_.Fail(true);
  store_.Open();
  saved.wait();
  store_.Fail(false);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!Turn("a").status.ok()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  ASSERT_TRUE(save());
  EXPECT_LE(store_.snapshots(), StoredJournal::kSnapshots);
}

// Who reads a session for longer than it sleeps reads it again.
TEST_F(Sleepers, WhatWasReadInAnEarlierSleepIsOutOfDate) {
  Start();
  Make("a", std::nullopt);
  PutToSleep(engine());
  store_.HoldReads(StoreTable::kJournal, 1);
  auto slow = Begin([&] { return engine().GetSession("a"); });
  ASSERT_TRUE(store_.AwaitHeldRead(kPatience));
  ASSERT_TRUE(Turn("a").status.ok());
  server_->AwaitIdle();
  const std::vector<int32_t> history = HistoryOf("a");
  PutToSleep(engine());
  store_.OpenReads();
  const Facts facts = slow.get();
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->position, std::ssize(history));
  const Outcome next = Turn("a");
  ASSERT_TRUE(next.status.ok()) << next.status;
  const auto whole = Joined(Joined(history, {1, 2, 3}), next.tokens);
  EXPECT_EQ(HistoryOf("a"), whole);
  Start();
  EXPECT_EQ(HistoryOf("a"), whole);
}

TEST_F(Sleepers, NoEtagComesAgain) {
  Start();
  Make("a", std::nullopt);
  const std::string first = EtagOf("a");
  ASSERT_TRUE(Update("a", first).ok());
  const std::string second = EtagOf("a");
  EXPECT_NE(second, first);
  PutToSleep(engine());
  EXPECT_EQ(EtagOf("a"), second);
  ASSERT_TRUE(Update("a", second).ok());
  EXPECT_NE(EtagOf("a"), second);
  EXPECT_EQ(ReasonOf(Update("a", second).status()), "ETAG_MISMATCH");
  // Nor that of a change which the store has refused.
  const std::string third = EtagOf("a");
  store_.Hold();
  store_.Fail(true);
  const auto told = std::make_shared<std::promise<absl::Status>>();
  ASSERT_TRUE(engine()
                  .UpdateSession(
                      {.session = "a", .settings = {.paused = false}},
                      [told](const Facts& facts) { told->set_value(facts.status()); })
                  .ok());
  const std::string refused = EtagOf("a");
  store_.Open();
  EXPECT_FALSE(told->get_future().get().ok());
  EXPECT_EQ(EtagOf("a"), third);
  store_.Fail(false);
  // Once that is well again.
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!Turn("a").status.ok()) ASSERT_LT(std::chrono::steady_clock::now(), end);
  server_->AwaitIdle();
  PutToSleep(engine());
  ASSERT_TRUE(Update("a", "").ok());
  EXPECT_NE(EtagOf("a").substr(0, refused.rfind('-')),
            refused.substr(0, refused.rfind('-')));
}

// A disk whose reads hang keeps nobody for longer than the bound: neither those who
// wait for something else, nor those who read.
TEST_F(Sleepers, ReadsThatHangKeepNobody) {
  Start();
  Make("a", std::nullopt);
  Make("b", seconds(10));
  PutToSleep(engine(), 2);
  Make("awake", std::nullopt);
  store_.HoldReads(StoreTable::kSessions);
  store_.Hold();
  const auto told = std::make_shared<std::promise<absl::Status>>();
  auto updated = told->get_future();
  ASSERT_TRUE(engine()
                  .UpdateSession(
                      {.session = "awake", .settings = {.paused = false}},
                      [told](const Facts& facts) { told->set_value(facts.status()); })
                  .ok());
  ASSERT_TRUE(store_.AwaitHeld(kPatience));
  // Whoever removes what expires waits for the disk.
  server_->clock.Advance(seconds(11));
  ASSERT_TRUE(store_.AwaitHeldRead(kPatience));
  auto got = Begin([&] { return engine().GetSession("a"); });
  auto gone = Begin([&] { return engine().GetSession("b"); });
  auto listed = Begin([&] { return engine().ListSessions({}); });
  const auto read = static_cast<size_t>(WaiterKind::kRead);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (engine().waiters().kinds[read].waiting < 4) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    std::this_thread::yield();
  }
  server_->clock.Advance(Waiters::kBound + seconds(1));
  ASSERT_EQ(updated.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(ReasonOf(updated.get()), "NO_ANSWER");
  ASSERT_EQ(got.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(ReasonOf(got.get().status()), "NO_ANSWER");
  ASSERT_EQ(listed.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(ReasonOf(listed.get().status()), "NO_ANSWER");
  ASSERT_EQ(gone.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(ReasonOf(gone.get().status()), "SESSION_EXPIRED");
  // Others do not wait as long, and not in vain once it goes on.
  std::vector<decltype(got)> others;
  for (int i = 0; i < 20; ++i) {
    others.push_back(Begin([&] { return engine().GetSession("a"); }));
  }
  for (auto& other : others) {
    ASSERT_EQ(other.wait_for(kPatience), std::future_status::ready);
    EXPECT_EQ(ReasonOf(other.get().status()), "NO_ANSWER");
  }
  EXPECT_FALSE(engine().Stats().models[0].ready);
  store_.Open();
  store_.OpenReads();
  const auto later = std::chrono::steady_clock::now() + kPatience;
  while (!engine().GetSession("a").ok()) {
    ASSERT_LT(std::chrono::steady_clock::now(), later);
  }
  EXPECT_EQ(ReasonOf(engine().GetSession("b").status()), "SESSION_EXPIRED");
}

// An engine ends while its reads hang, as soon as the disk lets it.
TEST_F(Sleepers, AnEngineEndsBesideReadsThatHang) {
  Start();
  Make("a", seconds(10));
  PutToSleep(engine());
  store_.HoldReads(StoreTable::kSessions);
  server_->clock.Advance(seconds(11));
  ASSERT_TRUE(store_.AwaitHeldRead(kPatience));
  auto ended = Begin([&] { server_->engine.reset(); });
  store_.OpenReads();
  EXPECT_EQ(ended.wait_for(kPatience), std::future_status::ready);
}

TEST_F(Sleepers, WhatHasExpiredDoesNotComeBack) {
  Start();
  Make("a", seconds(10));
  PutToSleep(engine());
  store_.FailReads(true);
  server_->clock.Advance(seconds(11));
  EXPECT_EQ(ReasonOf(engine().GetSession("a").status()), "SESSION_EXPIRED");
  EXPECT_EQ(ReasonOf(Turn("a").status), "SESSION_EXPIRED");
  // Those who look for what has expired have failed by now.
  for (int i = 0; i < 30; ++i) {
    server_->clock.Advance(seconds(1));
    std::this_thread::yield();
  }
  store_.FailReads(false);
  EXPECT_EQ(ReasonOf(engine().GetSession("a").status()), "SESSION_EXPIRED");
  EXPECT_EQ(ReasonOf(Turn("a").status), "SESSION_EXPIRED");
  EXPECT_EQ(engine().Stats().sessions, 0);
  Start();
  EXPECT_EQ(engine().Stats().sessions, 0);
}

// Its id is free at once, and the new session has nothing of it.
TEST_F(Sleepers, TheIdOfOneThatHasExpiredIsFree) {
  Start();
  Make("a", seconds(10));
  PutToSleep(engine());
  server_->clock.Advance(seconds(11));
  const Facts made = engine().CreateSession({.id = "a"});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->position, 0);
  const Outcome first = Turn("a");
  ASSERT_TRUE(first.status.ok()) << first.status;
  server_->AwaitIdle();
  Start();
  EXPECT_EQ(HistoryOf("a"), Joined({1, 2, 3}, first.tokens));
}

// They are told of, counted, and there again once their model is.
TEST_F(Sleepers, SessionsOfOtherModelsStay) {
  Start();
  Make("a", std::nullopt);
  server_.reset();
  {
    ToyDecoder decoder(ToyState::kFixed);
    EngineModel other;
    other.facts.name = "other";
    other.decoder = &decoder;
    Engine::Options options;
    options.store = &store_;
    const auto made = Engine::Create({other}, options);
    ASSERT_TRUE(made.ok()) << made.status();
    const absl::Status status = (*made)->GetSession("a").status();
    EXPECT_EQ(ReasonOf(status), "MODEL_FINGERPRINT");
    EXPECT_EQ(GetErrorDetail(status)->metadata["model"], "toy");
    EXPECT_GT((*made)->Stats().memory.sessions, 0);
  }
  Start();
  EXPECT_TRUE(engine().GetSession("a").ok());
}

// A request whose session has expired between two looks makes another one, at once.
TEST_F(Sleepers, ARequestMakesASessionAgainWhenItsOwnHasExpired) {
  const std::string request = "00000000-0000-4000-8000-000000000001";
  Start();
  Make("a", milliseconds(10'000));
  Make("b", milliseconds(10'500), request);
  PutToSleep(engine(), 2);
  server_->clock.Advance(milliseconds(10'000));
  EXPECT_EQ(ReasonOf(engine().GetSession("a").status()), "SESSION_EXPIRED");
  server_->clock.Advance(milliseconds(600));
  auto made = Begin([&] {
    CreateSessionRequest create{.id = "b", .request_id = request};
    create.settings.ttl = milliseconds(10'500);
    return engine().CreateSession(create);
  });
  const bool soon = made.wait_for(kPatience) == std::future_status::ready;
  EXPECT_TRUE(soon);
  if (!soon) server_->clock.Advance(seconds(10));
  const Facts facts = made.get();
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->position, 0);
}

// A model goes on while a fork that is repeated waits for its session to be read.
TEST_F(Sleepers, ARepeatedForkReadsTheStoreOnItsCallersThread) {
  Start();
  CreateSessionRequest create{.id = "parent"};
  create.settings.durability = Durability::kNone;
  ASSERT_TRUE(engine().CreateSession(create).ok());
  ASSERT_TRUE(Turn("parent").status.ok());
  ForkSessionRequest fork{.session = "parent", .id = "child"};
  fork.request_id = "00000000-0000-4000-8000-000000000002";
  fork.settings.durability = Durability::kTurn;
  const auto ask = [&] {
    return AwaitAnswer<SessionFacts>(
        [&](auto done) { return engine().ForkSession(fork, std::move(done)); });
  };
  const Facts first = ask();
  ASSERT_TRUE(first.ok()) << first.status();
  server_->AwaitIdle();
  PutToSleep(engine());
  store_.HoldReads(StoreTable::kSessions);
  auto again = Begin(ask);
  ASSERT_TRUE(store_.AwaitHeldRead(kPatience));
  auto other = Begin([&] { return server_->Run(Ask({1}, 3)); });
  EXPECT_EQ(other.wait_for(kPatience), std::future_status::ready);
  store_.OpenReads();
  const Facts second = again.get();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->etag, first->etag);
}

// What is removed of one goes to the store before another one gets its id.
TEST_F(Sleepers, ASessionMadeAnewOutlivesTheDeletionOfTheOneBefore) {
  observer_ = std::make_shared<HeldExpiries>();
  Start({});
  Make("a", seconds(10));
  Make("b", seconds(10));
  server_->clock.Advance(seconds(11));
  // Some thread is about to tell of the first.
  ASSERT_TRUE(observer_->AwaitHeld());
  std::map<std::string, std::vector<int32_t>> histories;
  for (const std::string id : {"a", "b"}) {
    const Facts made = engine().CreateSession({.id = id});
    ASSERT_TRUE(made.ok()) << made.status();
    const Outcome turn = Turn(id);
    ASSERT_TRUE(turn.status.ok()) << turn.status;
    histories[id] = Joined({1, 2, 3}, turn.tokens);
  }
  observer_->Open();
  server_->AwaitIdle();
  ASSERT_TRUE(engine().SaveSessions(std::chrono::steady_clock::now() + kPatience));
  Start({});
  for (const auto& [id, history] : histories) EXPECT_EQ(HistoryOf(id), history);
}

// Nobody who asks for one session removes all that have expired.
TEST_F(Sleepers, ACallerRemovesAFewOfThoseThatHaveExpired) {
  constexpr int kSessions = 10'000;
  observer_ = std::make_shared<HeldExpiries>();
  Start({.sessions = kSessions});
  SessionSettings settings{.ttl = seconds(10)};
  settings.durability = Durability::kNone;
  for (int i = 0; i < kSessions; ++i) {
    ASSERT_TRUE(
        engine().CreateSession({.id = StrCat("s", i), .settings = settings}).ok());
  }
  server_->clock.Advance(seconds(11));
  ASSERT_TRUE(observer_->AwaitHeld());
  for (const int id : {0, kSessions / 2, kSessions - 1}) {
    const int64_t before = engine().Stats().sessions;
    // As expired, unless too many have since.
    EXPECT_TRUE(absl::IsNotFound(engine().GetSession(StrCat("s", id)).status()));
    EXPECT_GT(engine().Stats().sessions, before - 2100);
  }
  EXPECT_GT(engine().Stats().sessions, kSessions / 4);
  // None of the others is there any more for a caller.
  EXPECT_TRUE(engine().ListSessions({})->sessions.empty());
  EXPECT_TRUE(absl::IsNotFound(Turn("s7").status));
}

}  // namespace
}  // namespace mnemon
