// SPDX-License-Identifier: MIT
// An engine over a toy decoder.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/engine/engine.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/patience.h"
#include "tests/fakes/served_decoder.h"
#include "tests/fakes/toy_decoder.h"
#include "tests/server/engine/reader.h"

namespace mnemon {

inline std::string ReasonOf(const absl::Status& status) {
  return GetErrorDetail(status).value_or(ErrorDetail{}).reason;
}
inline std::string FieldOf(const absl::Status& status) {
  return GetErrorDetail(status).value_or(ErrorDetail{}).field;
}

// `count` ordinary tokens, different for each seed.
inline std::vector<int32_t> Tokens(int64_t count, uint32_t seed) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525 + 1013904223;
    tokens.push_back(static_cast<int32_t>((seed >> 16) % ToyDecoder::kOrdinaryTokens));
  }
  return tokens;
}

inline GenerateRequest Ask(std::vector<int32_t> prompt, int32_t max_tokens,
                           std::string session = "") {
  GenerateRequest request;
  request.session = std::move(session);
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 1.0;
  request.seed = 99;
  return request;
}

inline SamplingParams AskedSampling() { return {.temperature = 1.0, .seed = 99}; }

inline std::vector<int32_t> Joined(std::vector<int32_t> a,
                                   const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Memory is freed on other threads.
inline bool AwaitMemory(const Engine& engine,
                        const std::function<bool(const MemoryStats&)>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition(engine.Stats().memory)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

struct ToyServer {
  explicit ToyServer(ToyState state, Engine::Options options = {},
                     int64_t append_capacity = 1024,
                     const Tokenizer* tokenizer = nullptr,
                     GenerationDefaults generation = {})
      : decoder(state, append_capacity), served(MakeServed(decoder)) {
    options.clock = &clock;
    EngineModel model;
    model.facts.name = "toy";
    model.facts.generation = std::move(generation);
    model.decoder = served ? served.get() : &decoder;
    model.tokenizer = tokenizer;
    auto made = Engine::Create({model}, options);
    EXPECT_TRUE(made.ok()) << made.status();
    if (made.ok()) engine = *std::move(made);
  }
  // A held step must not delay the engine's end.
  ~ToyServer() { decoder.AllowAll(); }

  void CreateSession(const std::string& id) {
    const auto made = engine->CreateSession({.id = id});
    ASSERT_TRUE(made.ok()) << made.status();
  }
  Outcome Run(const GenerateRequest& request) {
    return Reader(*engine, request).Finish();
  }
  void AwaitIdle() { ASSERT_TRUE(engine->WaitIdle(kPatience)); }
  // The engine's thread may be the one that removes what has expired.
  void AwaitNoState() {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (engine->Stats().state_bytes != 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::yield();
    }
  }
  // Makes the engine measure steps of 10 ms and calls of 40 tokens.
  void MeasureSteps() {
    decoder.Allow(0);
    Reader call(*engine, Ask({1}, 40));
    for (int i = 0; i < 40; ++i) {
      decoder.AwaitHeld();
      clock.Advance(std::chrono::milliseconds(10));
      decoder.Allow(1);
    }
    decoder.AllowAll();
    call.Finish();
    AwaitIdle();
  }
  // Steps submitted before one is complete.
  int64_t ahead() const { return served ? served->most_under_way() - 1 : 0; }
  int64_t Position(const std::string& id) {
    const auto facts = engine->GetSession(id);
    EXPECT_TRUE(facts.ok()) << facts.status();
    return facts.ok() ? facts->position : -1;
  }

  FakeClock clock;
  ToyDecoder decoder;
  std::unique_ptr<Decoder> served;
  std::unique_ptr<Engine> engine;  // ends first
};

}  // namespace mnemon
