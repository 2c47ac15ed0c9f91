// SPDX-License-Identifier: MIT
// Serving equals training: for every architecture and variant, the tokens that eight
// sessions receive over gRPC at once are those of `mnemon-train sample`, and greedy
// ones the arg-max of the sequence form.
#include <array>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <thread>

#include <ATen/ops/arange.h>
#include <ATen/ops/from_blob.h>
#include <unistd.h>

#include "base/strings.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/io/checkpoint.h"
#include "model/sequence/load.h"
#include "model/sequence/make_model.h"
#include "model/sequence/tensors.h"
#include "server/engine/engine.h"
#include "server/rpc/server.h"
#include "server/service/service.h"

namespace mnemon {
namespace {

constexpr int kSessions = 8;
constexpr int kTokens = 24;
// Below this distance of the two best logits, forms that round differently may differ.
constexpr float kLeastMargin = 1e-3f;

struct Case {
  std::string name;
  ModelConfig config;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Family& entry : Families()) {
    if (!entry.autoregressive()) continue;
    int i = 0;
    for (const ModelConfig& config : entry.variants()) {
      cases.push_back({StrCat(entry.name, "_", i++), config});
    }
  }
  return cases;
}

std::vector<int32_t> PromptOf(int session, int64_t vocab) {
  std::vector<int32_t> prompt;
  for (int i = 0; i <= session % 5; ++i) {
    prompt.push_back(static_cast<int32_t>((session * 3 + i * 5 + 1) % vocab));
  }
  return prompt;
}

std::string Join(const std::vector<int32_t>& ids) { return StrJoin(ids, ","); }

std::string RunSample(const std::string& dir, const std::vector<int32_t>& prompt,
                      int tokens, const std::string& more) {
  const std::string command =
      StrCat("'", MNEMON_BINARY_DIR, "/bin/mnemon-train' sample --checkpoint '", dir,
             "' --prompt-tokens ", Join(prompt), " --tokens ", tokens, " --ids ", more,
             " 2>/dev/null");
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return "";
  std::string out;
  std::array<char, 4096> buffer;
  while (size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) {
    out.append(buffer.data(), n);
  }
  EXPECT_EQ(pclose(pipe), 0) << command;
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

// Checks `generated` against the sequence form: all tokens in one call, or, where a
// segment sees more than the step form's window, one token a call.
void ExpectArgMaxOfSequence(const Model& model, const std::vector<int32_t>& prompt,
                            const std::vector<int32_t>& generated) {
  std::vector<int64_t> history(prompt.begin(), prompt.end());
  history.insert(history.end(), generated.begin(), generated.end());
  const int64_t computed = static_cast<int64_t>(history.size()) - 1;
  const at::Tensor tokens =
      at::from_blob(history.data(), {1, computed}, at::kLong).clone();
  const auto* const attention = FirstBlock<Attention>(model.description());
  const bool one_by_one = attention != nullptr && attention->whole_segments;
  Carry carry;
  std::vector<at::Tensor> rows;
  for (int64_t at = 0; at < computed; at += one_by_one ? 1 : computed) {
    auto result = model.Forward(tokens.narrow(1, at, one_by_one ? 1 : computed), carry);
    ASSERT_TRUE(result.ok()) << result.status();
    carry = result->carry;
    for (const at::Tensor& row : result->logits[0].unbind(0)) rows.push_back(row);
  }
  for (size_t i = 0; i < generated.size(); ++i) {
    const at::Tensor row = rows[prompt.size() - 1 + i];
    const auto [best, index] = row.topk(2);
    if (best[0].item<float>() - best[1].item<float>() < kLeastMargin) return;
    ASSERT_EQ(index[0].item<int64_t>(), generated[i]) << "generated token " << i;
  }
}

class ServingEqualsTraining : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() /
           StrCat("mnemon-serving-", getpid(), "-", GetParam().name);
    auto model = MakeModel(GetParam().config);
    ASSERT_TRUE(model.ok()) << model.status();
    InitialiseWeights(**model, Initialisation::kSane, 17);
    auto weights = FormatWeights(**model);
    ASSERT_TRUE(weights.ok()) << weights.status();
    ASSERT_TRUE(WriteCheckpoint(dir_, {{"config.json", ConfigToJson(GetParam().config)},
                                       {"model.safetensors", *std::move(weights)}})
                    .ok());
    auto loaded = LoadCheckpoint(dir_);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    loaded_ = *std::move(loaded);
    auto decoder = MakeDecoder(*loaded_.model);
    ASSERT_TRUE(decoder.ok()) << decoder.status();
    decoder_ = *std::move(decoder);
    EngineModel served;
    served.facts.name = "m";
    served.facts.vocab = loaded_.description.vocab;
    served.decoder = decoder_.get();
    auto engine = Engine::Create({served}, {.sessions = kSessions});
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    service_ = *Service::Create(*engine_, {});
    auto server = RpcServer::Start(*service_, {.listen = "127.0.0.1:0"});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    tokens_ = static_cast<int>(
        std::min<int64_t>(kTokens, decoder_->spec().max_positions() - 5));
    ASSERT_GT(tokens_, 0);
  }
  void TearDown() override {
    if (server_) server_->Shutdown(std::chrono::milliseconds(0));
    std::filesystem::remove_all(dir_);
  }

  // The tokens of all sessions, at once; `options` but for prompt, length and seed.
  std::vector<std::vector<int32_t>> GenerateAll(client::GenerateOptions options) {
    auto client =
        client::Client::Connect({.server = StrCat("127.0.0.1:", server_->port())});
    options.stopping.max_tokens = tokens_;
    std::vector<std::vector<int32_t>> results(kSessions);
    std::vector<std::thread> threads;
    for (int i = 0; i < kSessions; ++i) {
      threads.emplace_back([&, i, options]() mutable {
        options.tokens = PromptOf(i, loaded_.description.vocab);
        options.sampling.seed = 1000 + i;
        auto result =
            client->Generate(options, [&](const client::GenerateChunk& chunk) {
              results[i].insert(results[i].end(), chunk.tokens.begin(),
                                chunk.tokens.end());
              return true;
            });
        EXPECT_TRUE(result.ok()) << result.status();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  std::string dir_;
  LoadedModel loaded_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<RpcServer> server_;
  int tokens_ = 0;
};

TEST_P(ServingEqualsTraining, GreedyTokensOfEightSessions) {
  const auto results = GenerateAll({.sampling = {.temperature = 0.0}});
  for (int i = 0; i < kSessions; ++i) {
    SCOPED_TRACE(StrCat("session ", i));
    ASSERT_EQ(static_cast<int>(results[i].size()), tokens_);
    ExpectArgMaxOfSequence(*loaded_.model, PromptOf(i, loaded_.description.vocab),
                           results[i]);
  }
}

TEST_P(ServingEqualsTraining, SampledTokensOfEightSessions) {
  const auto results = GenerateAll({.sampling = {.temperature = 1.2,
                                                 .min_p = 0.02,
                                                 .typical_p = 0.95,
                                                 .repetition_penalty = 1.2,
                                                 .frequency_penalty = 0.3,
                                                 .presence_penalty = 0.2,
                                                 .penalty_window_tokens = 7}});
  EXPECT_EQ(Join(results[3]),
            RunSample(dir_, PromptOf(3, loaded_.description.vocab), tokens_,
                      "--temperature 1.2 --min-p 0.02 --typical-p 0.95 "
                      "--repetition-penalty 1.2 --frequency-penalty 0.3 "
                      "--presence-penalty 0.2 --penalty-window-tokens 7 --seed 1003"));
}

INSTANTIATE_TEST_SUITE_P(Registry, ServingEqualsTraining, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mnemon
