// SPDX-License-Identifier: MIT
// Models whose weights are finite, but one token's numbers are not: no session keeps
// what that token makes of its state.
#include <string>

#include <ATen/core/Tensor.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/sequence/make_model.h"
#include "model/sequence/model.h"
#include "tests/fakes/patience.h"
#include "tests/server/engine/engine_fixture.h"
#include "tests/server/engine/scorer.h"

namespace mnemon {
namespace {

constexpr int32_t kBad = 1;

class StateOfABadToken : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const Family& entry : Families()) {
      if (entry.name != GetParam()) continue;
      ModelConfig config = entry.variants().front();
      config.vocab = 20;
      config.tie_head = false;
      auto model = MakeModel(config);
      ASSERT_TRUE(model.ok()) << model.status();
      InitialiseWeights(**model, Initialisation::kSane, 17);
      (*model)->Visit([](const std::string& name, at::Tensor& weight) {
        if (name == "embed.weight") weight[kBad].fill_(3e38f);
      });
      auto decoder = MakeDecoder(**model);
      ASSERT_TRUE(decoder.ok()) << decoder.status();
      decoder_ = *std::move(decoder);
    }
    ASSERT_NE(decoder_, nullptr);
    EngineModel served;
    served.facts.name = "m";
    served.facts.vocab = decoder_->model().vocab;
    served.decoder = decoder_.get();
    auto engine = Engine::Create({served}, {.sessions = 4});
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  void Create(const std::string& session) {
    ASSERT_TRUE(engine_->CreateSession({.id = session}).ok());
  }
  Outcome Run(std::vector<int32_t> prompt, int32_t tokens, const std::string& session) {
    GenerateRequest request = Ask(std::move(prompt), tokens, session);
    request.sampling.logit_bias = {{kBad, -1000.0f}};
    return Reader(*engine_, request).Finish();
  }
  void ExpectRefused(const Outcome& outcome) {
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(ReasonOf(outcome.status), "NON_FINITE_STATE") << outcome.status;
  }

  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<Engine> engine_;
};

INSTANTIATE_TEST_SUITE_P(Architectures, StateOfABadToken,
                         testing::Values("causal", "feedback", "fast_weights",
                                         "transformer_xl"),
                         [](const auto& info) { return info.param; });

TEST_P(StateOfABadToken, IsNeverKept) {
  for (const std::string session : {"hit", "spared"}) {
    Create(session);
    ASSERT_TRUE(Run({2, 3, 4}, 1, session).status.ok());
  }
  ExpectRefused(Run({5, kBad, 6}, 0, "hit"));
  ExpectRefused(Run({kBad, 6}, 2, "hit"));
  EXPECT_EQ(engine_->GetSession("hit")->position, 4);
  ScoreRequest score;
  score.session = "hit";
  Scorer scorer(*engine_, score);
  (void)scorer.Append(std::vector<int32_t>{5, kBad, 6});
  EXPECT_EQ(ReasonOf(scorer.Finish().status), "NON_FINITE_STATE");

  const Outcome expected = Run({5}, 2, "spared"), found = Run({5}, 2, "hit");
  EXPECT_TRUE(found.status.ok()) << found.status;
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.tokens.size(), 2u);
}

// Its neighbours in the step go on.
TEST_P(StateOfABadToken, EndsOneCall) {
  const Outcome alone = Run({2, 3}, 4, "");
  for (int round = 0; round < 10; ++round) {
    GenerateRequest good = Ask({2, 3}, 4), bad = Ask({2, kBad, 3}, 0);
    good.sampling.logit_bias = {{kBad, -1000.0f}};
    Reader one(*engine_, good), two(*engine_, bad), three(*engine_, good);
    ExpectRefused(two.Finish());
    EXPECT_EQ(one.Finish().tokens, alone.tokens);
    EXPECT_EQ(three.Finish().tokens, alone.tokens);
  }
  ASSERT_TRUE(engine_->WaitIdle(kPatience));
  EXPECT_EQ(engine_->Stats().state_bytes, 0);
}

}  // namespace
}  // namespace mnemon
