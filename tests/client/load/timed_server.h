// SPDX-License-Identifier: MIT
// A server without a tokenizer whose every step takes a known time.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "client/client.h"
#include "gtest/gtest.h"
#include "server/engine/engine.h"
#include "server/rpc/server.h"
#include "server/service/service.h"
#include "tests/fakes/toy_decoder.h"

namespace mnemon {

// A toy decoder that takes at least `step` per Submit, since these tests are about
// time.
class TimedDecoder final : public Decoder {
 public:
  TimedDecoder(std::chrono::milliseconds step, int64_t append_capacity)
      : step_(step), toy_(ToyState::kFixedAndAppend, append_capacity) {}

  const ModelDescription& model() const override { return toy_.model(); }
  const StateSpec& spec() const override { return toy_.spec(); }
  const std::string& numerics_id() const override { return toy_.numerics_id(); }
  int64_t weight_bytes() const override { return 0; }
  absl::Status Submit(std::span<const Segment> segments, StateArena& arena,
                      float* logits) override {
    std::this_thread::sleep_for(step_);
    return toy_.Submit(segments, arena, logits);
  }
  absl::Status Import(int64_t position, const TensorViews& carry, StateArena& arena,
                      int32_t slot) override {
    return toy_.Import(position, carry, arena, slot);
  }

 private:
  const std::chrono::milliseconds step_;
  ToyDecoder toy_;
};

struct TimedServerOptions {
  std::chrono::milliseconds step{0};
  int64_t append_capacity = 4096;
  Engine::Options engine;
  ServiceOptions service;
};

// Members in the order of their lifetimes.
class TimedServer {
 public:
  explicit TimedServer(const TimedServerOptions& options = {})
      : decoder(options.step, options.append_capacity) {
    // Other tokens of the toy fail intentionally.
    ModelFacts facts{.name = "timed",
                     .architecture = "toy",
                     .config_json = "{}",
                     .vocab = ToyDecoder::kOrdinaryTokens,
                     .has_tokenizer = false};
    const int64_t limit = decoder.spec().max_positions();
    if (limit != StateSpec::kUnlimited) facts.context_limit = limit;
    std::vector<EngineModel> models;
    models.push_back({.facts = facts, .decoder = &decoder, .tokenizer = nullptr});
    auto made = Engine::Create(std::move(models), options.engine);
    EXPECT_TRUE(made.ok()) << made.status();
    engine = *std::move(made);
    service = *Service::Create(*engine, options.service);
    auto started = RpcServer::Start(*service, {.listen = "127.0.0.1:0"});
    EXPECT_TRUE(started.ok()) << started.status();
    server = *std::move(started);
    address = StrCat("127.0.0.1:", server->port());
  }
  ~TimedServer() {
    server.reset();
    service.reset();
    engine.reset();
  }

  std::unique_ptr<client::Client> NewClient() const {
    return client::Client::Connect({.server = address, .retry = {.tries = 1}});
  }

  TimedDecoder decoder;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Service> service;
  std::unique_ptr<RpcServer> server;
  std::string address;
};

}  // namespace mnemon
