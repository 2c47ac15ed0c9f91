// SPDX-License-Identifier: MIT
// Everything that can be done with sessions, by many threads at once: histories and
// states are, to the bit, those that one thread computes afterwards from what the calls
// have answered.
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "server/snapshots/snapshot.h"
#include "tests/fakes/patience.h"
#include "tests/server/engine/await_answer.h"
#include "tests/server/engine/engine_fixture.h"
#include "tests/server/engine/session_log.h"
#include "tests/server/engine/session_oracle.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;

constexpr int kThreads = 16;
constexpr int64_t kLongest = 300;  // tokens of a history that is still prolonged
constexpr auto kForEver = std::chrono::hours(24 * 365);
// Sessions per kind of state: MNEMON_INTERLEAVED_SESSIONS.
int Sessions() {
  if (const char* asked = std::getenv("MNEMON_INTERLEAVED_SESSIONS")) {
    return std::atoi(asked);
  }
  return std::getenv("MNEMON_SANITIZED") == nullptr ? 500 : 60;
}

class Interleavings {
 public:
  Interleavings(ToyState state, int sessions, int64_t state_bytes)
      : most_(sessions),
        server_(state,
                {.sessions = 8 * sessions + 256,
                 .running = 12,
                 .max_queue = 1024,
                 .idle_timeout = kForEver,
                 .state_bytes = state_bytes,
                 .step_tokens = 64},
                4096),
        oracle_(state) {}

  void Run() {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([this, t] { Act(t); });
    }
    for (std::thread& thread : threads) thread.join();
    if (testing::Test::HasFailure()) return;
    Check();
  }

 private:
  using Log = std::shared_ptr<SessionLog>;
  struct Actor {
    std::mt19937 random;
    int made = 0;
    std::string name;
    std::string snapshot;  // the last one that it has seen
    int64_t Draw(int64_t below) { return static_cast<int64_t>(random() % below); }
  };

  void Act(int number) {
    Actor actor{.random = std::mt19937(static_cast<uint32_t>(number) + 7),
                .name = StrCat("t", number, "-")};
    const int acts = 12 * most_ / kThreads;
    for (int i = 0; i < acts && !testing::Test::HasFailure(); ++i) {
      const Log log = Pick(actor);
      if (log == nullptr) continue;
      std::unique_lock turn(log->turn, std::defer_lock);
      if (actor.Draw(2) == 0) {
        LookAt(*log, actor);
      } else if (!turn.try_lock()) {
        Disturb(*log, actor);
      } else if (log->alive) {
        Alter(*log, actor);
      }
    }
  }

  // A session, or null when one was made.
  Log Pick(Actor& actor) {
    {
      std::lock_guard lock(mutex_);
      const auto count = static_cast<int64_t>(logs_.size());
      // The newest ones are many threads' choice.
      if (count >= most_ || (count > 4 && actor.Draw(10) != 0)) {
        const int64_t back =
            actor.Draw(actor.Draw(2) == 0 ? std::min<int64_t>(count, 8) : count);
        return logs_[static_cast<size_t>(count - 1 - back)];
      }
    }
    const std::string id = StrCat(actor.name, ++actor.made);
    CreateSessionRequest request{.id = id};
    request.settings.ttl = kForEver;
    request.settings.sampling =
        SessionSampling{.values = {.temperature = 1.0}, .seed = 5};
    const auto made = server_.engine->CreateSession(request);
    EXPECT_TRUE(made.ok()) << made.status();
    Add(id, {});
    return nullptr;
  }

  // Whether there are so many that no more are made of others.
  bool Full() {
    std::lock_guard lock(mutex_);
    return std::ssize(logs_) > 3 * most_;
  }

  void Add(const std::string& id, History begin) {
    auto log = std::make_shared<SessionLog>(id, std::move(begin));
    log->sampling = {.temperature = 1.0, .seed = 5};
    std::lock_guard lock(mutex_);
    logs_.push_back(std::move(log));
  }

  // What says that nothing has happened.
  void ExpectRefusal(const SessionLog& log, const absl::Status& status,
                     std::initializer_list<std::string_view> reasons) {
    const std::string reason = ReasonOf(status);
    if (reason == "SESSION_NOT_FOUND" || reason == "SESSION_EXPIRED" ||
        reason == "SESSION_DELETED") {
      std::lock_guard lock(mutex_);
      gone_.push_back(log.id);
      return;
    }
    EXPECT_NE(std::find(reasons.begin(), reasons.end(), reason), reasons.end())
        << log.id << ": " << status;
  }

  // Looks, at any time.
  void LookAt(SessionLog& log, Actor& actor) {
    switch (actor.Draw(6)) {
      case 0:
      case 1:
        if (Full()) return;
        return Fork(log, actor);
      case 2:
        return Keep(log, actor);
      case 3:
        return Verify(log, actor);
      case 4:
        if (Export(log, actor) && !Full()) Import(actor);
        return;
      case 5: {
        // Its number of tokens counts those of a call that may yet fail.
        const auto facts = server_.engine->GetSession(log.id);
        if (!facts.ok()) ExpectRefusal(log, facts.status(), {});
        EXPECT_TRUE(server_.engine->ListSessions({.page_size = 7}).ok());
        return;
      }
    }
  }

  // Calls `begin` again while it is refused for this reason.
  template <class Begin>
  static auto Insist(std::string_view reason, const Begin& begin) {
    auto answer = begin();
    if (ReasonOf(answer.status()) == reason) {
      Eventually([&] { return ReasonOf((answer = begin()).status()) != reason; });
    }
    return answer;
  }

  // The session as it is now.
  bool Export(SessionLog& log, Actor& actor) {
    Look look = log.BeginLook();
    auto exported = Exported(log.id);
    if (!exported.ok()) {
      ExpectRefusal(log, exported.status(), {});
      return false;
    }
    actor.snapshot = exported->snapshot;
    look.snapshot = std::move(exported->snapshot);
    log.EndLook(look, SizeOf(look.snapshot));
    log.Keep(std::move(look));
    return true;
  }

  absl::StatusOr<ExportedSession> Exported(const std::string& id) {
    return Insist("TRANSFER_LIMIT", [&] {
      return AwaitAnswer<ExportedSession>([&](auto done) {
        return server_.engine->ExportSession(id, std::move(done));
      });
    });
  }

  static int64_t SizeOf(const std::string& snapshot) {
    const auto header = ReadSnapshotHeader(snapshot);
    EXPECT_TRUE(header.ok()) << header.status();
    return header.ok() ? header->tokens : -1;
  }

  void Fork(SessionLog& log, Actor& actor) {
    const std::string id = StrCat(actor.name, ++actor.made);
    ForkSessionRequest request{.session = log.id, .id = id};
    request.settings.ttl = kForEver;
    request.settings.sampling =
        SessionSampling{.values = {.temperature = 1.0}, .seed = 5};
    Look look = log.BeginLook();
    if (actor.Draw(3) == 0) {
      request.position = actor.Draw(log.size() + 1);
      look.part = true;
    }
    const auto made = AwaitAnswer<SessionFacts>([&](auto done) {
      return server_.engine->ForkSession(request, std::move(done));
    });
    if (!made.ok()) {
      return ExpectRefusal(log, made.status(), {"BEYOND_HISTORY"});
    }
    log.EndLook(look, made->position);
    // Nobody else knows it yet.
    auto child = std::make_unique<SessionLog>(id, History{});
    if (!Export(*child, actor)) return;
    look.snapshot = actor.snapshot;
    log.Keep(std::move(look));
    Add(id, TokensOf(actor.snapshot));
  }

  void Keep(SessionLog& log, Actor& actor) {
    const std::string id = StrCat(actor.name, "c", ++actor.made);
    Look look = log.BeginLook();
    const auto made = AwaitAnswer<CheckpointFacts>([&](auto done) {
      return server_.engine->CheckpointSession(
          {.session = log.id, .id = id, .request_id = ""}, std::move(done));
    });
    if (!made.ok()) return ExpectRefusal(log, made.status(), {"CHECKPOINT_LIMIT"});
    log.EndLook(look, made->position);
    log.Keep(look);
    log.AddCheckpoint(id, std::move(look));
  }

  void Verify(SessionLog& log, Actor& actor) {
    const bool replay = actor.Draw(2) == 0;
    Look look = log.BeginLook();
    const auto verified = Insist("TRANSFER_LIMIT", [&] {
      return AwaitAnswer<VerifiedSession>([&](auto done) {
        return server_.engine->VerifySession({.session = log.id, .replay = replay},
                                             std::move(done));
      });
    });
    if (!verified.ok()) {
      return ExpectRefusal(log, verified.status(), {"NO_FREE_BLOCKS"});
    }
    EXPECT_TRUE(verified->stored_form_valid);
    EXPECT_NE(verified->replay_equal, false) << verified->first_difference;
    EXPECT_EQ(verified->replay_equal.has_value(), replay);
    log.EndLook(look, verified->position);
    log.Keep(std::move(look));
  }

  // A new session from the actor's snapshot, which may be damaged, or older.
  void Import(Actor& actor) {
    const std::string id = StrCat(actor.name, ++actor.made);
    ImportSessionRequest request{.id = id, .snapshot = actor.snapshot};
    request.settings.ttl = kForEver;
    request.settings.sampling =
        SessionSampling{.values = {.temperature = 1.0}, .seed = 5};
    const int64_t way = actor.Draw(4);
    auto& bytes = request.snapshot;
    if (way == 0) bytes[static_cast<size_t>(actor.Draw(std::ssize(bytes)))] ^= 0x10;
    if (way == 1) {
      auto snapshot = DecodeSnapshot(bytes, SessionOracle::kLimits);
      ASSERT_TRUE(snapshot.ok());
      snapshot->numerics_id = "older";
      bytes = *EncodeSnapshot(*snapshot);
    }
    const auto made = Insist("TRANSFER_LIMIT", [&] {
      return AwaitAnswer<SessionFacts>([&](auto done) {
        return server_.engine->ImportSession(request, std::move(done));
      });
    });
    if (way == 0) {
      EXPECT_EQ(ReasonOf(made.status()), "SNAPSHOT_DAMAGED") << made.status();
      return;
    }
    ASSERT_TRUE(made.ok()) << made.status();
    Add(id, TokensOf(actor.snapshot));
  }

  static History TokensOf(const std::string& snapshot) {
    auto read = DecodeSnapshot(snapshot, SessionOracle::kLimits);
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() ? std::move(read->tokens) : History{};
  }

  // What is refused or has no effect, beside whatever somebody else does to it.
  void Disturb(SessionLog& log, Actor& actor) {
    Engine& engine = *server_.engine;
    switch (actor.Draw(4)) {
      case 0:
        Reader(engine, Ask({}, 0, log.id)).Finish();
        return;
      case 1: {
        // It fails while its prompt is computed, and may damage the state.
        const int32_t faults[] = {ToyDecoder::kFailing, ToyDecoder::kThrowing,
                                  ToyDecoder::kNotANumber, ToyDecoder::kNonFinite};
        History prompt = Tokens(actor.Draw(30), static_cast<uint32_t>(actor.random()));
        prompt.push_back(faults[actor.Draw(4)]);
        const Outcome outcome = Reader(engine, Ask(prompt, 3, log.id)).Finish();
        EXPECT_FALSE(outcome.status.ok());
        EXPECT_TRUE(outcome.tokens.empty());
        return;
      }
      case 2: {
        const auto rewound = AwaitAnswer<SessionFacts>([&](auto done) {
          return engine.RewindSession(
              {.session = log.id, .target = int64_t{0}, .etag = "stale"},
              std::move(done));
        });
        return ExpectRefusal(log, rewound.status(), {"SESSION_BUSY", "ETAG_MISMATCH"});
      }
      case 3:
        return ExpectRefusal(log, engine.DeleteSession(log.id, "stale"),
                             {"ETAG_MISMATCH"});
    }
  }

  // Changes, one after the other.
  void Alter(SessionLog& log, Actor& actor) {
    const int64_t way = actor.Draw(24);
    if (way == 0) return End(log, actor);
    if (way < 4) return Rewind(log, actor);
    if (way < 8) return Restore(log, actor);
    if (way < 10) {
      const auto seed = static_cast<uint64_t>(actor.Draw(1000));
      UpdateSessionRequest request{.session = log.id};
      request.settings.sampling =
          SessionSampling{.values = {.temperature = 0.7}, .seed = seed};
      const auto updated = server_.engine->UpdateSession(request);
      ASSERT_TRUE(updated.ok()) << updated.status();
      log.sampling = {.temperature = 0.7, .seed = seed};
      return;
    }
    if (log.size() < kLongest) return Generate(log, actor);
    Rewind(log, actor);
  }

  void Generate(SessionLog& log, Actor& actor) {
    Change change{.kind = Change::Kind::kGenerate,
                  .prompt = Tokens(1 + actor.Draw(actor.Draw(6) == 0 ? 120 : 12),
                                   static_cast<uint32_t>(actor.random())),
                  .sampling = log.sampling,
                  .asked = actor.Draw(60)};
    GenerateRequest request =
        Ask(change.prompt, static_cast<int32_t>(change.asked), log.id);
    request.session_sampling = true;
    request.sampling = {};
    request.seed.reset();
    log.BeginChange();
    std::unique_ptr<Reader> reader;
    const absl::Status begun = Insist("SESSION_BUSY", [&]() -> absl::StatusOr<bool> {
                                 reader =
                                     std::make_unique<Reader>(*server_.engine, request);
                                 if (!reader->status().ok()) return reader->status();
                                 return true;
                               }).status();
    ASSERT_TRUE(begun.ok()) << begun;
    const int64_t way = actor.Draw(16);
    if (way < 5) {
      // Ends at any moment of the call.
      for (int64_t i = actor.Draw(3); i > 0 && !reader->ended(); --i) reader->Next();
      if (way == 0) {
        ASSERT_TRUE(server_.engine->DeleteSession(log.id).ok());
        log.alive = false;
      } else {
        reader->stream().Cancel();
      }
    }
    const Outcome outcome = reader->Finish();
    // There may be no room to start if the state is being read or written elsewhere.
    const bool refused = ReasonOf(outcome.status) == "NO_FREE_BLOCKS" &&
                         !outcome.start &&
                         GetErrorDetail(outcome.status)->retry_after.has_value();
    EXPECT_TRUE(outcome.status.ok() || absl::IsCancelled(outcome.status) || refused ||
                (!log.alive && ReasonOf(outcome.status) == "SESSION_DELETED"))
        << outcome.status;
    change.tokens = outcome.tokens;
    change.whole = outcome.status.ok();
    change.stays = change.whole || !change.tokens.empty();
    if (outcome.start) change.first_index = outcome.start->first_index;
    int64_t size = log.size();
    if (change.stays) size += std::ssize(change.prompt) + std::ssize(change.tokens);
    if (log.alive) {
      // A cancelled call is cut between two steps.
      EXPECT_TRUE(Eventually([&] { return server_.Position(log.id) == size; }))
          << log.id << ": " << server_.Position(log.id) << ", not " << size;
    }
    log.EndChange(std::move(change), size);
  }

  absl::StatusOr<SessionFacts> Rewound(const RewindSessionRequest& request) {
    return Insist("SESSION_BUSY", [&] {
      return AwaitAnswer<SessionFacts>([&](auto done) {
        return server_.engine->RewindSession(request, std::move(done));
      });
    });
  }

  void Rewind(SessionLog& log, Actor& actor) {
    Change change{.kind = Change::Kind::kRewind, .target = actor.Draw(log.size() + 1)};
    log.BeginChange();
    const auto rewound =
        Rewound({.session = log.id, .target = change.target, .etag = ""});
    ASSERT_TRUE(rewound.ok()) << rewound.status();
    const int64_t size = change.target;
    log.EndChange(std::move(change), size);
  }

  void Restore(SessionLog& log, Actor& actor) {
    const auto checkpoints = log.checkpoints();
    if (checkpoints.empty()) return;
    const auto& [id, kept] =
        checkpoints[static_cast<size_t>(actor.Draw(std::ssize(checkpoints)))];
    Change change{.kind = Change::Kind::kRestore, .checkpoint = id};
    log.BeginChange();
    const auto rewound = Rewound({.session = log.id, .target = id, .etag = ""});
    ASSERT_TRUE(rewound.ok()) << rewound.status();
    // Which of the histories it was that were there when it was kept.
    const auto exported = Exported(log.id);
    ASSERT_TRUE(exported.ok()) << exported.status();
    change.snapshot = exported->snapshot;
    log.EndChange(std::move(change), kept.position);
  }

  // Deletes it, or lets it expire.
  void End(SessionLog& log, Actor& actor) {
    Engine& engine = *server_.engine;
    log.alive = false;
    if (actor.Draw(2) == 0) {
      ASSERT_TRUE(engine.DeleteSession(log.id).ok());
      return;
    }
    UpdateSessionRequest request{.session = log.id};
    request.settings.ttl = milliseconds(1);
    const auto updated = engine.UpdateSession(request);
    ASSERT_TRUE(updated.ok()) << updated.status();
    EXPECT_TRUE(Eventually([&] {
      server_.clock.Advance(milliseconds(2));
      return !engine.GetSession(log.id).ok();
    }));
  }

  void Check() {
    int64_t changes = 0, looks = 0, alive = 0;
    for (const Log& log : logs_) {
      SCOPED_TRACE(log->id);
      changes += std::ssize(log->changes());
      looks += std::ssize(log->looks());
      oracle_.Check(*log);
      const auto facts = server_.engine->GetSession(log->id);
      ASSERT_EQ(facts.ok(), log->alive) << facts.status();
      if (!log->alive) continue;
      ++alive;
      const auto exported = Exported(log->id);
      ASSERT_TRUE(exported.ok()) << exported.status();
      oracle_.CheckEnd(exported->snapshot);
      if (testing::Test::HasFailure()) return;
      ASSERT_TRUE(server_.engine->DeleteSession(log->id).ok());
    }
    for (const Log& log : logs_) {
      const bool gone = std::find(gone_.begin(), gone_.end(), log->id) != gone_.end();
      EXPECT_FALSE(gone && log->alive) << log->id << " was not found";
    }
    // What was tried has mostly happened.
    EXPECT_GE(std::ssize(logs_), most_);
    EXPECT_GT(changes, 2 * most_);
    EXPECT_GT(looks, 2 * most_);
    EXPECT_GT(alive, most_ / 4);
    EXPECT_EQ(server_.engine->Stats().sessions, 0);
    server_.AwaitNoState();
  }

  const int most_;
  ToyServer server_;
  SessionOracle oracle_;
  std::mutex mutex_;  // guards all below
  std::vector<Log> logs_;
  std::vector<std::string> gone_;  // sessions that somebody did not find
};

class EngineInterleavings : public testing::TestWithParam<ToyState> {};

TEST_P(EngineInterleavings, EqualOneThreadsOracle) {
  Interleavings(GetParam(), Sessions(), int64_t{1} << 30).Run();
}

// Where states at rest must go to make room for others.
TEST_P(EngineInterleavings, EqualItWithMemoryForFewStates) {
  const ToyDecoder decoder(GetParam());
  const bool ring = decoder.spec().growth() == Growth::kRing;
  const int64_t row = decoder.spec().row_elements() * sizeof(float);
  // Thirty fixed states; a dozen rings, or one session of all the tokens that there may
  // be.
  Interleavings(GetParam(), Sessions() / 2,
                30 * decoder.spec().bytes_at(0) + row * (ring ? 1536 : 4608))
      .Run();
}

INSTANTIATE_TEST_SUITE_P(States, EngineInterleavings, testing::ValuesIn(kToyStates),
                         [](const auto& info) { return ToyName(info.param); });

}  // namespace
}  // namespace mnemon
