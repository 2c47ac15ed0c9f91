// SPDX-License-Identifier: MIT
// One server of every architecture: 32 sessions at once over gRPC give token for token
// what each gives alone.
#include <thread>

#include "base/strings.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/sequence/make_model.h"
#include "model/sequence/model.h"
#include "server/engine/engine.h"
#include "server/rpc/server.h"
#include "server/service/service.h"

namespace mnemon {
namespace {

constexpr int kSessions = 32;

class MixedSessions : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<EngineModel> served;
    for (const Family& entry : Families()) {
      const ModelConfig config = entry.variants().front();
      auto model = MakeModel(config);
      ASSERT_TRUE(model.ok()) << model.status();
      InitialiseWeights(**model, Initialisation::kSane, 17);
      if (!entry.autoregressive()) continue;
      auto decoder = MakeDecoder(**model);
      ASSERT_TRUE(decoder.ok()) << decoder.status();
      EngineModel one;
      one.facts.name = StrCat("m", served.size());
      one.facts.vocab = config.vocab;
      one.decoder = decoder->get();
      served.push_back(one);
      models_.push_back(*std::move(model));
      decoders_.push_back(*std::move(decoder));
    }
    ASSERT_GE(served.size(), 4u);
    auto engine = Engine::Create(served, {.sessions = kSessions});
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    service_ = *Service::Create(*engine_, {});
    auto server = RpcServer::Start(*service_, {.listen = "127.0.0.1:0"});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    client_ =
        client::Client::Connect({.server = StrCat("127.0.0.1:", server_->port())});
  }

  struct Turns {
    std::vector<int32_t> tokens;
    std::vector<float> logprobs;
    bool operator==(const Turns&) const = default;
  };

  // Two turns of session number `i`, under the name `name`, and a score.
  Turns Run(int i, const std::string& name) {
    const size_t which = static_cast<size_t>(i) % models_.size();
    const int64_t vocab = models_[which]->description().vocab;
    const int64_t room =
        std::min<int64_t>(decoders_[which]->spec().max_positions(), 64);
    const auto prompt = [&](int turn) {
      std::vector<int32_t> ids;
      for (int j = 0; j <= (i + turn) % 3; ++j) {
        ids.push_back(static_cast<int32_t>((i * 3 + j * 5 + turn) % vocab));
      }
      return ids;
    };
    Turns turns;
    const auto made = client_->CreateSession(name, StrCat("m", which));
    EXPECT_TRUE(made.ok()) << made.status();
    for (int turn = 0; turn < 2; ++turn) {
      client::GenerateOptions options;
      options.session = name;
      options.tokens = prompt(turn);
      options.stopping.max_tokens =
          static_cast<int32_t>(std::max<int64_t>(1, room / 2 - 6));
      options.sampling.temperature = i % 4 == 0 ? 0.0 : 0.9;
      if (i % 3 == 0) options.sampling.repetition_penalty = 1.3;
      if (i % 5 == 0) options.sampling.min_p = 0.05;
      options.sampling.seed = 1000 + i;
      const auto result =
          client_->Generate(options, [&](const client::GenerateChunk& chunk) {
            turns.tokens.insert(turns.tokens.end(), chunk.tokens.begin(),
                                chunk.tokens.end());
            return true;
          });
      EXPECT_TRUE(result.ok()) << result.status();
    }
    client::ScoreOptions score;
    score.session = name;
    score.tokens = prompt(2);
    const auto scored = client_->Score(score, [&](const auto& tokens) {
      for (const client::TokenLogprobs& one : tokens) {
        turns.logprobs.push_back(one.logprob);
      }
      return true;
    });
    EXPECT_TRUE(scored.ok()) << scored.status();
    EXPECT_TRUE(client_->DeleteSession(name).ok());
    return turns;
  }

  std::vector<std::unique_ptr<Model>> models_;
  std::vector<std::unique_ptr<Decoder>> decoders_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<client::Client> client_;
};

TEST_F(MixedSessions, AtOnceEqualAlone) {
  std::vector<Turns> alone;
  for (int i = 0; i < kSessions; ++i) alone.push_back(Run(i, "alone"));
  std::vector<Turns> together(kSessions);
  std::vector<std::thread> threads;
  for (int i = 0; i < kSessions; ++i) {
    threads.emplace_back([&, i] { together[i] = Run(i, StrCat("s", i)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kSessions; ++i) {
    EXPECT_EQ(together[i].tokens, alone[i].tokens) << i;
    EXPECT_EQ(together[i].logprobs, alone[i].logprobs) << i;
    EXPECT_FALSE(alone[i].tokens.empty());
    EXPECT_FALSE(alone[i].logprobs.empty());
  }
  EXPECT_EQ(engine_->Stats().sessions, 0);
}

}  // namespace
}  // namespace mnemon
