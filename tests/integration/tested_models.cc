// SPDX-License-Identifier: MIT
#include "tests/integration/tested_models.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "model/io/checkpoint.h"
#include "model/sequence/make_model.h"
#include "model/sequence/model.h"
#include "model/sequence/tensors.h"
#include "model/text/tokenizer.h"

namespace mnemon {
namespace {

constexpr char kAlphabet[] = "\n abcdefghijklmnopqrstuvwxyz";
constexpr int64_t kBytes = 256;
// Context of models that have one.
constexpr int64_t kContext = 640;

std::vector<ModelConfig> Configs() {
  ModelConfig base;
  base.d_model = 16;
  base.heads = 2;
  base.layers = 2;
  base.d_ff = 32;
  base.vocab = sizeof(kAlphabet) - 1;
  ModelConfig fast_weights = base;
  fast_weights.architecture = "fast_weights";
  ModelConfig feedback = base;
  feedback.architecture = "feedback";
  feedback.vocab = kBytes;
  feedback.position_kind = PositionKind::kRelative;
  feedback.positions = kContext;
  ModelConfig segments = base;
  segments.architecture = "transformer_xl";
  segments.position_kind = PositionKind::kRelative;
  segments.window = Window::kSegment;
  segments.mem_len = 24;
  segments.positions = 64;
  ModelConfig causal = base;
  causal.architecture = "causal";
  causal.vocab = kBytes;
  causal.position_kind = PositionKind::kLearned;
  causal.positions = kContext;
  return {feedback, fast_weights, segments, causal};
}

void Write(const std::string& path, const ModelConfig& config) {
  auto model = MakeModel(config);
  ASSERT_TRUE(model.ok()) << model.status();
  InitialiseWeights(**model, Initialisation::kSane, 5);
  auto weights = FormatWeights(**model);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const std::string tokenizer = config.vocab == kBytes
                                    ? MakeByteTokenizer()->ToJson()
                                    : (*MakeCharTokenizer(kAlphabet))->ToJson();
  const absl::Status written =
      WriteCheckpoint(path, {{"config.json", ConfigToJson(config)},
                             {"model.safetensors", *std::move(weights)},
                             {"tokenizer.json", tokenizer}});
  ASSERT_TRUE(written.ok()) << written;
}

}  // namespace

std::vector<TestedModel> WriteTestedModels(const std::string& directory) {
  std::vector<TestedModel> models;
  for (const ModelConfig& config : Configs()) {
    TestedModel& model = models.emplace_back();
    model.name = config.architecture;
    std::ranges::replace(model.name, '_', '-');  // names of resources have none
    model.path = directory + "/" + config.architecture;
    model.vocab = config.vocab;
    model.letters = kAlphabet + 1;  // a stop string is more than a line's end
    Write(model.path, config);
  }
  return models;
}

}  // namespace mnemon
