// SPDX-License-Identifier: MIT
// An engine over step forms on an emulated device, beside one over the same on the CPU:
// the same tokens, whatever happens to the device.
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/program/make_decoder.h"
#include "model/state/arena.h"
#include "server/engine/engine.h"
#include "tests/fakes/device/device_operations.h"
#include "tests/fakes/device/emulated_driver.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/patience.h"
#include "tests/model/decoder/drawn_weights.h"
#include "tests/server/engine/reader.h"

namespace mnemon {
namespace {

// One variant of each architecture, feedback with keys and values of its own and
// shared.
std::vector<ModelConfig> Configs() {
  std::vector<ModelConfig> configs;
  for (const char* name :
       {"feedback", "feedback_shared", "fast_weights", "transformer_xl", "causal"}) {
    ModelConfig config;
    EXPECT_TRUE(SetArchitecture(config, name).ok());
    for (const ModelConfig& variant : (*FindFamily(config.architecture))->variants()) {
      if (variant.projection != config.projection) continue;
      configs.push_back(variant);
      break;
    }
  }
  return configs;
}

struct World {
  World(const ModelDescription& model, const TensorViews& views, DeviceDriver* driver,
        Engine::Options options = {})
      : decoder(*MakeDecoder(model, views, {.device = driver})) {
    options.clock = &clock;
    EngineModel served{.facts = {.name = "model"}, .decoder = decoder.get()};
    auto made = Engine::Create({served}, options);
    status = made.status();
    if (made.ok()) engine = *std::move(made);
  }

  Outcome Run(const GenerateRequest& request) {
    return Reader(*engine, request).Finish();
  }

  FakeClock clock;
  std::unique_ptr<Decoder> decoder;
  absl::Status status;
  std::unique_ptr<Engine> engine;  // ends first
};

class EngineOnDevice : public testing::TestWithParam<ModelConfig> {
 protected:
  void SetUp() override {
    if (!CanEmulateDevices()) GTEST_SKIP() << "no fibers with ThreadSanitizer";
  }

  const ModelConfig& config() const { return GetParam(); }

  // The i-th of several calls that run at once, on sessions or without one.
  GenerateRequest Request(int i, const std::string& session = "") const {
    GenerateRequest request;
    request.session = session;
    std::vector<int32_t> prompt;
    for (int p = 0; p < 1 + i % 3; ++p) {
      prompt.push_back(static_cast<int32_t>((p * 5 + i * 3) % config().vocab));
    }
    request.prompt = prompt;
    request.max_tokens = 3 + i % 2;
    request.seed = static_cast<uint64_t>(100 + i);
    request.sampling.temperature = i % 3 == 0 ? 0.0 : 1.1;
    if (i % 4 == 1) request.sampling.repetition_penalty = 1.4;
    if (i % 4 == 2) request.sampling.top_p = 0.8;
    if (i % 4 == 3) request.stop_tokens = {static_cast<int32_t>(i % config().vocab)};
    return request;
  }

  const ModelDescription model_ = *DescribeModel(config());
  DrawnWeights weights_{model_};
  static constexpr EmulatedDriver::Options kDevice{.processors = 2,
                                                   .whole_step_rows = 2};
  EmulatedDriver driver_{kDevice};
};

TEST_P(EngineOnDevice, HasNoIntrospection) {
  World cpu(model_, weights_.views, nullptr);
  World device(model_, weights_.views, &driver_);
  ASSERT_TRUE(device.status.ok()) << device.status;
  GenerateRequest request = Request(0);
  request.introspection.hidden_state = true;
  EXPECT_TRUE(cpu.Run(request).status.ok());
  const absl::Status refused = device.Run(request).status;
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetErrorDetail(refused)->reason, "NO_INTROSPECTION");
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("--device cpu"));
}

TEST_P(EngineOnDevice, TokensAreThoseOfTheCpu) {
  World cpu(model_, weights_.views, nullptr);
  World device(model_, weights_.views, &driver_);
  ASSERT_TRUE(device.status.ok()) << device.status;
  std::vector<std::unique_ptr<Reader>> readers;
  constexpr int kCalls = 6;
  for (int i = 0; i < kCalls; ++i) {
    readers.push_back(std::make_unique<Reader>(*device.engine, Request(i)));
  }
  for (int i = 0; i < kCalls; ++i) {
    const Outcome here = cpu.Run(Request(i)), there = readers[i]->Finish();
    EXPECT_TRUE(there.status.ok()) << there.status;
    EXPECT_EQ(there.tokens, here.tokens) << i;
  }
}

// Each call of a session goes on where the last one ended, with a device that was lost
// in between, and in the middle of a call.
TEST_P(EngineOnDevice, SessionsOutliveTheDevice) {
  World cpu(model_, weights_.views, nullptr);
  World device(model_, weights_.views, &driver_);
  for (World* world : {&cpu, &device}) {
    ASSERT_TRUE(world->engine->CreateSession({.id = "s"}).ok());
  }
  const GenerateRequest first = Request(1, "s"), second = Request(2, "s");
  EXPECT_EQ(device.Run(first).tokens, cpu.Run(first).tokens);
  driver_.Lose();
  const Outcome lost = device.Run(second);
  EXPECT_EQ(lost.status.code(), absl::StatusCode::kUnavailable) << lost.status;
  EXPECT_EQ(GetErrorDetail(lost.status)->reason, "DEVICE_LOST");
  const Outcome again = device.Run(second);
  EXPECT_TRUE(again.status.ok()) << again.status;
  EXPECT_EQ(again.tokens, cpu.Run(second).tokens);
}

// Memory runs out for one thing that calls take: none gives other tokens, and all is
// given back.
TEST_P(EngineOnDevice, OutOfMemoryHarmsItsCallAlone) {
  World cpu(model_, weights_.views, nullptr);
  World device(model_, weights_.views, &driver_);
  const std::vector<int32_t> expected[] = {cpu.Run(Request(1)).tokens,
                                           cpu.Run(Request(2)).tokens};
  for (int after = 0; after < 4; ++after) {
    driver_.FailTake(after);
    Reader first(*device.engine, Request(1)), second(*device.engine, Request(2));
    const Outcome outcomes[] = {first.Finish(), second.Finish()};
    driver_.FailTake(-1);
    int failed = 0;
    for (int i = 0; i < 2; ++i) {
      if (outcomes[i].status.ok()) {
        EXPECT_EQ(outcomes[i].tokens, expected[i]);
      } else {
        ++failed;
        EXPECT_EQ(outcomes[i].status.code(), absl::StatusCode::kResourceExhausted)
            << outcomes[i].status;
      }
    }
    EXPECT_LE(failed, 1) << after;
    EXPECT_EQ(device.Run(Request(2)).tokens, expected[1]);
  }
  device.engine.reset();
  device.decoder.reset();
  EXPECT_TRUE(driver_.Wait(driver_.Mark()).ok());
  EXPECT_EQ(driver_.used(), 0);
}

// More sessions than the device has room for: their states come and go, and none is
// computed again.
TEST_P(EngineOnDevice, StatesMoveToTheHostAndBack) {
  const StateSpec spec = MakeDecoder(model_, weights_.views, {})->get()->spec();
  const int64_t blocks = (*StateArena::Create(spec, {.slots = 1}))->pools().blocks();
  const int64_t full = spec.bytes_at(0) + blocks * 16 * spec.row_elements() *
                                              static_cast<int64_t>(sizeof(float));
  EmulatedDriver roomy_driver(kDevice);
  World roomy(model_, weights_.views, &roomy_driver);
  World device(model_, weights_.views, &driver_,
               {.running = 1, .state_bytes = full + full / 4});
  ASSERT_TRUE(device.status.ok()) << device.status;
  constexpr int kSessions = 12;
  const auto id = [](int i) { return "s" + std::to_string(i); };
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kSessions; ++i) {
      Outcome outcomes[2];
      for (World* world : {&roomy, &device}) {
        if (round == 0) {
          ASSERT_TRUE(world->engine->CreateSession({.id = id(i)}).ok());
        }
        GenerateRequest request = Request(round + i, id(i));
        outcomes[world == &device] = world->Run(request);
        // A state that has no time to move is computed again.
        ASSERT_TRUE(world->engine->WaitIdle(kPatience));
      }
      const auto& [expected, outcome] = outcomes;
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      EXPECT_EQ(outcome.tokens, expected.tokens) << round << ", " << i;
      EXPECT_EQ(outcome.start->resumed_tokens, expected.start->resumed_tokens)
          << round << ", " << i;
    }
  }
  ASSERT_TRUE(device.engine->WaitIdle(kPatience));
  const SessionFacts facts = *device.engine->GetSession(id(0));
  EXPECT_EQ(facts.tier, SessionTier::kHost);
  EXPECT_GT(facts.state_size_bytes, 0);
  EXPECT_GT(device.engine->Stats().memory.images, 0);
  EXPECT_EQ(device.engine->GetSession(id(kSessions - 1))->tier, SessionTier::kDevice);
  for (int i = 0; i < kSessions; ++i) {
    EXPECT_TRUE(device.engine->DeleteSession(id(i)).ok());
  }
  EXPECT_TRUE(Eventually([&] { return device.engine->Stats().memory.images == 0; }));
}

TEST_P(EngineOnDevice, StatesThatDoNotFitAreRefusedAtTheStart) {
  const auto decoder = *MakeDecoder(model_, weights_.views, {.device = &driver_});
  EmulatedDriver::Options options = kDevice;
  options.memory = driver_.used() + 1000;
  EmulatedDriver small(options);
  const World world(model_, weights_.views, &small, {.sessions = 1000});
  EXPECT_EQ(world.status.code(), absl::StatusCode::kResourceExhausted) << world.status;
  EXPECT_THAT(std::string(world.status.message()), testing::HasSubstr("full sessions"));
}

INSTANTIATE_TEST_SUITE_P(Architectures, EngineOnDevice, testing::ValuesIn(Configs()),
                         [](const testing::TestParamInfo<ModelConfig>& info) {
                           return info.param.architecture + "_" +
                                  std::to_string(info.index);
                         });

}  // namespace
}  // namespace mnemon
