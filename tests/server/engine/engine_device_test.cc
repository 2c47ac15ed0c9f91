// SPDX-License-Identifier: MIT
// A decoder that computes and draws asynchronously, and fails: the tokens of every
// session are those of a decoder on the host, whatever ends its calls.
#include <ostream>
#include <random>

#include "tests/fakes/late_decoder.h"
#include "tests/fakes/patience.h"
#include "tests/server/engine/engine_fixture.h"
#include "tests/server/engine/scorer.h"

namespace mnemon {
namespace {

struct DeviceServer {
  explicit DeviceServer(ToyState state, const LateDecoder::Options& faults = {},
                        Engine::Options options = {})
      : toy(state), device(toy, faults) {
    options.clock = &clock;
    EngineModel model{.facts = {.name = "toy"}, .decoder = &device};
    engine = *Engine::Create({model}, options);
  }
  // Nothing of any call is left, neither in the arena nor on the device.
  ~DeviceServer() {
    toy.AllowAll();
    const SessionPage page = *engine->ListSessions({.page_size = 1000});
    for (const auto& session : page.sessions) {
      EXPECT_TRUE(engine->DeleteSession(session.id).ok());
    }
    AwaitIdle();
    const EngineStats stats = engine->Stats();
    EXPECT_EQ(stats.state_bytes, 0);
    EXPECT_EQ(stats.memory.shadows, 0);
    engine.reset();
    EXPECT_EQ(device.drawing(), 0u);
  }

  void AwaitIdle() { EXPECT_TRUE(engine->WaitIdle(kPatience)); }
  void CreateSession(const std::string& id) {
    EXPECT_TRUE(engine->CreateSession({.id = id}).ok());
  }
  Outcome Run(const GenerateRequest& request) {
    return Reader(*engine, request).Finish();
  }
  int64_t Position(const std::string& id) { return engine->GetSession(id)->position; }

  FakeClock clock;
  ToyDecoder toy;
  LateDecoder device;
  std::unique_ptr<Engine> engine;  // ends first
};

class DeviceEachState : public testing::TestWithParam<ToyState> {
 protected:
  std::vector<int32_t> Expected(const std::vector<int32_t>& history, int64_t count) {
    return ToyContinuation(GetParam(), history, count, AskedSampling());
  }
};
INSTANTIATE_TEST_SUITE_P(Engine, DeviceEachState, testing::ValuesIn(kToyStates),
                         [](const auto& info) { return ToyName(info.param); });

// What is known ahead costs no row; a stop token costs the one that is under way.
TEST_P(DeviceEachState, StepsAreSubmittedAhead) {
  DeviceServer server(GetParam());
  EXPECT_EQ(server.Run(Ask({1}, 20)).tokens, Expected({1}, 20));
  server.AwaitIdle();
  EXPECT_EQ(server.device.ahead(), 19);
  EXPECT_EQ(server.engine->Stats().tokens_computed, 20);
  EXPECT_EQ(server.engine->Stats().steps, 20);

  GenerateRequest request = Ask({1}, 20);
  const auto tokens = Expected({1}, 20);
  request.stop_tokens = {tokens[7]};
  const auto end = std::ranges::find(tokens, tokens[7]) + 1;
  EXPECT_EQ(server.Run(request).tokens, std::vector<int32_t>(tokens.begin(), end));
  server.AwaitIdle();
  EXPECT_EQ(server.engine->Stats().tokens_computed, 20 + (end - tokens.begin()) + 1);
}

TEST_P(DeviceEachState, ALostDeviceEndsItsCallsAndLosesNoToken) {
  DeviceServer server(GetParam(), {}, {.sessions = 8});
  server.CreateSession("rests");
  server.CreateSession("runs");
  const auto resting = server.Run(Ask(Tokens(30, 1), 20, "rests")).tokens;
  server.toy.Allow(0);
  Reader fresh(*server.engine, Ask(Tokens(90, 2), 20));
  Reader running(*server.engine, Ask(Tokens(20, 3), 60, "runs"));
  while (running.stream().space() == TokenStream::kCapacity) {
    server.toy.AwaitHeld();
    server.toy.Allow(1);
  }
  server.device.LoseDevice();
  server.toy.AllowAll();
  for (Reader* reader : {&fresh, &running}) {
    const absl::Status status = reader->Finish().status;
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_EQ(ReasonOf(status), "DEVICE_LOST");
  }
  const auto kept = running.so_far().tokens;
  EXPECT_EQ(kept, Expected(Tokens(20, 3), static_cast<int64_t>(kept.size())));
  EXPECT_EQ(server.Position("runs"), 20 + static_cast<int64_t>(kept.size()));
  EXPECT_EQ(server.Run(Ask({}, 30, "runs")).tokens,
            Expected(Joined(Tokens(20, 3), kept), 30));
  EXPECT_EQ(server.Run(Ask({}, 30, "rests")).tokens,
            Expected(Joined(Tokens(30, 1), resting), 30));
  server.AwaitIdle();
  EXPECT_EQ(server.device.lost(), 1);
}

// One that waits for its reader, and takes part in no step that fails.
TEST_P(DeviceEachState, ALostDeviceEndsAStalledCall) {
  DeviceServer server(GetParam(), {}, {.sessions = 8});
  Reader stopped(*server.engine, Ask({1}, 200));
  while (server.engine->Stats().models[0].stalled == 0) std::this_thread::yield();
  server.device.LoseDevice();
  EXPECT_EQ(ReasonOf(server.Run(Ask({2}, 5)).status), "DEVICE_LOST");
  const Outcome outcome = stopped.Finish();
  EXPECT_EQ(ReasonOf(outcome.status), "DEVICE_LOST") << outcome.status;
  const auto count = static_cast<int64_t>(outcome.tokens.size());
  EXPECT_GT(count, 0);
  EXPECT_EQ(outcome.tokens, Expected({1}, count));
  EXPECT_EQ(server.Run(Ask({3}, 20)).tokens, Expected({3}, 20));
}

TEST(Device, ThatDoesNotComeBackIsTriedAgain) {
  DeviceServer server(ToyState::kFixedAndAppend, {.failed_restarts = 2});
  server.CreateSession("s");
  const auto before = server.Run(Ask({1}, 5, "s")).tokens;
  server.device.LoseDevice();
  EXPECT_EQ(ReasonOf(server.Run(Ask({2}, 5, "s")).status), "DEVICE_LOST");
  EXPECT_EQ(ReasonOf(server.Run(Ask({2}, 5, "s")).status), "DEVICE_LOST");
  EXPECT_EQ(server.engine->Stats().models[0].unready, "device lost");
  while (!server.engine->Stats().models[0].ready) {
    server.clock.Advance(std::chrono::seconds(1));
    std::this_thread::yield();
  }
  EXPECT_EQ(server.Position("s"), 6);
  EXPECT_EQ(server.Run(Ask({2}, 5, "s")).tokens,
            ToyContinuation(ToyState::kFixedAndAppend, Joined(Joined({1}, before), {2}),
                            5, AskedSampling()));
}

// Two devices that share the turns.
TEST(Device, TwoModelsTakeTurns) {
  ToyDecoder toys[] = {ToyDecoder(ToyState::kFixed), ToyDecoder(ToyState::kRing)};
  LateDecoder first(toys[0], {}), second(toys[1], {});
  auto engine = *Engine::Create({{.facts = {.name = "0"}, .decoder = &first},
                                 {.facts = {.name = "1"}, .decoder = &second}},
                                {});
  std::vector<std::unique_ptr<Reader>> readers;
  for (int i = 0; i < 12; ++i) {
    GenerateRequest request = Ask(Tokens(20 + i, i), 100);
    request.model = std::to_string(i % 2);
    readers.push_back(std::make_unique<Reader>(*engine, request));
  }
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(readers[i]->Finish().tokens,
              ToyContinuation(i % 2 ? ToyState::kRing : ToyState::kFixed,
                              Tokens(20 + i, i), 100, AskedSampling()));
  }
}

// A session of which the test knows the history, and the call that runs on it.
class RandomSession {
 public:
  RandomSession(DeviceServer& server, ToyState state, std::string id)
      : server_(server), state_(state), id_(std::move(id)) {
    if (!id_.empty()) server_.CreateSession(id_);
  }

  void Begin(std::mt19937& random) {
    prompt_ = Tokens(history_.empty() ? 1 + random() % 90 : random() % 30, random());
    GenerateRequest request = Ask(prompt_, random() % 50, id_);
    SamplingParams sampling = AskedSampling();
    if (random() % 2) {
      sampling.frequency_penalty = 0.5f;
      sampling.repetition_penalty = 1.25f;
      sampling.penalty_window_tokens = 1 + random() % 70;
    }
    if (random() % 3 == 0) sampling.top_k = 5;
    if (random() % 4 == 0) sampling.logit_bias = {{.token = 3, .bias = 2.0f}};
    request.sampling.frequency_penalty = sampling.frequency_penalty;
    request.sampling.repetition_penalty = sampling.repetition_penalty;
    request.sampling.penalty_window_tokens = sampling.penalty_window_tokens;
    request.sampling.top_k = sampling.top_k;
    request.sampling.logit_bias = sampling.logit_bias;
    request.logprobs.wanted = random() % 4 == 0;
    if (random() % 2) request.stop_tokens = {static_cast<int32_t>(random() % 32)};
    expected_ = ToyContinuation(state_, Joined(history_, prompt_), *request.max_tokens,
                                sampling);
    if (!request.stop_tokens.empty()) {
      const auto stop = std::ranges::find(expected_, request.stop_tokens[0]);
      if (stop != expected_.end()) expected_.erase(stop + 1, expected_.end());
    }
    reader_ = std::make_unique<Reader>(*server_.engine, request);
    ASSERT_TRUE(reader_->status().ok()) << reader_->status();
  }

  // Counts it if it failed.
  void End(std::mt19937& random, int64_t& failed) {
    const bool cancel = random() % 3 == 0;
    for (auto left = random() % 3; cancel && left > 0; --left) {
      if (reader_->Next().finished) break;
    }
    if (cancel) reader_->stream().Cancel();
    const Outcome outcome = reader_->Finish();
    while (!id_.empty() &&
           server_.engine->GetSession(id_)->state != SessionState::kIdle) {
      std::this_thread::yield();
    }
    const auto& tokens = outcome.tokens;
    const auto delivered = static_cast<size_t>(reader_->stream().delivered());
    ASSERT_EQ(tokens.size(), delivered);
    ASSERT_LE(tokens.size(), expected_.size());
    ASSERT_TRUE(std::equal(tokens.begin(), tokens.end(), expected_.begin()))
        << testing::PrintToString(tokens) << " " << testing::PrintToString(expected_);
    if (outcome.status.ok()) {
      ASSERT_EQ(tokens.size(), expected_.size());
    } else if (outcome.status.code() != absl::StatusCode::kCancelled) {
      const std::string reason = ReasonOf(outcome.status);
      ASSERT_TRUE(reason == "OUT_OF_MEMORY" || reason == "NON_FINITE_STATE" ||
                  reason == "DEVICE_LOST")
          << outcome.status;
      ++failed;
    }
    if (id_.empty()) return;
    if (outcome.status.ok() || !tokens.empty()) {
      history_ = Joined(Joined(history_, prompt_), tokens);
    }
    ASSERT_EQ(server_.Position(id_), static_cast<int64_t>(history_.size()));
  }

  // Scores a copy of the session: right, or with an error.
  void ScoreCopy(std::mt19937& random) {
    Scorer scorer(*server_.engine, {.session = id_});
    ASSERT_TRUE(scorer.status().ok()) << scorer.status();
    const auto part = Tokens(1 + random() % 90, random());
    if (!scorer.Append(part).ok()) return;
    const Scores scores = scorer.Finish();
    if (!scores.status.ok()) return;
    const size_t first = history_.empty() ? 1 : 0;
    ASSERT_EQ(scores.tokens.size(), part.size() - first);
    for (size_t i = 0; i < scores.tokens.size(); ++i) {
      ASSERT_EQ(scores.tokens[i].token, part[first + i]);
    }
  }

 private:
  DeviceServer& server_;
  const ToyState state_;
  const std::string id_;
  std::vector<int32_t> history_;
  std::vector<int32_t> prompt_;
  std::vector<int32_t> expected_;
  std::unique_ptr<Reader> reader_;
};

struct Schedule {
  std::string name;
  LateDecoder::Options faults;
};
void PrintTo(const Schedule& schedule, std::ostream* out) { *out << schedule.name; }

class RandomSchedules : public testing::TestWithParam<std::tuple<ToyState, Schedule>> {
};
INSTANTIATE_TEST_SUITE_P(
    Engine, RandomSchedules,
    testing::Combine(
        testing::ValuesIn(kToyStates),
        testing::Values(Schedule{.name = "Late"},
                        Schedule{.name = "AtOnce", .faults = {.some_at_once = true}},
                        Schedule{.name = "OutOfMemory",
                                 .faults = {.some_at_once = true, .out_of_memory = 20}},
                        Schedule{.name = "NonFinite", .faults = {.non_finite = 20}},
                        Schedule{.name = "Lost",
                                 .faults = {.some_at_once = true, .lost = 60}},
                        Schedule{.name = "All",
                                 .faults = {.some_at_once = true,
                                            .out_of_memory = 50,
                                            .non_finite = 50,
                                            .lost = 100}})),
    [](const auto& info) {
      return ToyName(std::get<0>(info.param)) + std::get<1>(info.param).name;
    });

TEST_P(RandomSchedules, GiveTheTokensOfTheHost) {
  const auto& [state, schedule] = GetParam();
  int64_t ahead = 0, failures = 0, failed = 0;
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    LateDecoder::Options faults = schedule.faults;
    faults.seed = seed;
    std::mt19937 random(seed);
    DeviceServer server(state, faults, {.sessions = 16, .step_tokens = 100});
    std::vector<std::unique_ptr<RandomSession>> sessions;
    for (int i = 0; i < 8; ++i) {
      sessions.push_back(std::make_unique<RandomSession>(
          server, state, i < 5 ? "s" + std::to_string(i) : ""));
    }
    for (int round = 0; round < 6; ++round) {
      std::vector<RandomSession*> running;
      for (const auto& session : sessions) {
        if (random() % 4 == 0) continue;
        ASSERT_NO_FATAL_FAILURE(session->Begin(random));
        running.push_back(session.get());
      }
      const auto& scored = sessions[random() % 5];
      if (std::ranges::find(running, scored.get()) == running.end()) {
        ASSERT_NO_FATAL_FAILURE(scored->ScoreCopy(random));
      }
      std::shuffle(running.begin(), running.end(), random);
      for (RandomSession* session : running) {
        ASSERT_NO_FATAL_FAILURE(session->End(random, failed)) << "seed " << seed;
      }
    }
    server.AwaitIdle();
    ahead += server.device.ahead();
    failures += server.device.failed();
  }
  EXPECT_GT(ahead, 200);
  const bool faulty = schedule.faults.out_of_memory + schedule.faults.non_finite +
                          schedule.faults.lost >
                      0;
  EXPECT_EQ(failures > 0, faulty);
  // A step that fails ends no call but one that it was made for alone.
  if (schedule.faults.lost == 0) {
    EXPECT_LT(failed, faulty ? failures : 1);
  }
}

}  // namespace
}  // namespace mnemon
