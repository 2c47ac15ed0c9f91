// SPDX-License-Identifier: MIT
#include "model/description/description.h"

#include <functional>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "tests/model/description/random_descriptions.h"

namespace mnemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelDescription Small() {
  const Attention attention{.heads = 2, .groups = 2, .width = 4};
  return {.width = 6,
          .vocab = 5,
          .context = 9,
          .embedding = {},
          .layers = {{{.name = "attn", .block = attention},
                      {.name = "ff", .block = FeedForward{.hidden = 7}}}},
          .memory = {},
          .head = {}};
}

Attention& AttentionOf(ModelDescription& model) {
  return std::get<Attention>(model.layers[0][0].block);
}

std::vector<std::string> Names(const StateSpec& spec) {
  std::vector<std::string> names;
  for (const StateEntry& entry : spec.entries) names.push_back(entry.name);
  return names;
}

TEST(DescriptionTest, EveryFamilyAndEveryRandomModelIsAccepted) {
  for (const Family& family : Families()) {
    for (const ModelConfig& config : family.variants()) {
      EXPECT_TRUE(CheckDescription(family.describe(config)).ok()) << family.name;
    }
  }
  for (const ModelDescription& model : RandomDescriptions(/*whole=*/true)) {
    EXPECT_TRUE(CheckDescription(model).ok()) << CheckDescription(model);
  }
}

TEST(DescriptionTest, FaultsAreNamed) {
  struct Case {
    std::string fault;
    std::function<void(ModelDescription&)> break_it;
  };
  const Case cases[] = {
      {"no width", [](ModelDescription& m) { m.width = 0; }},
      {"vocab is not in", [](ModelDescription& m) { m.vocab = 1 << 24; }},
      {"0 layers", [](ModelDescription& m) { m.layers.clear(); }},
      {"dropout 1", [](ModelDescription& m) { m.dropout = 1; }},
      {"layer 0, block ff: no name of its own",
       [](ModelDescription& m) { m.layers[0][0].name = "ff"; }},
      {"block attn: 3 groups that do not divide 2 heads",
       [](ModelDescription& m) { AttentionOf(m).groups = 3; }},
      {"block attn: groups of several heads with relative positions",
       [](ModelDescription& m) {
         AttentionOf(m).groups = 1;
         AttentionOf(m).positions = RelativePositions{.rows = 9, .zero_row = 8};
       }},
      {"groups of several heads in attention to more than the past",
       [](ModelDescription& m) {
         AttentionOf(m).groups = 1;
         AttentionOf(m).sees = Attention::Sees::kAll;
       }},
      {"groups of several heads over whole sequences",
       [](ModelDescription& m) {
         AttentionOf(m).groups = 1;
         m.whole_sequences = true;
         m.head.classifier.emplace();
       }},
      {"block attn: a size that is not in",
       [](ModelDescription& m) { AttentionOf(m).window = -1; }},
      {"neither a window nor a context",
       [](ModelDescription& m) { m.context = StateSpec::kUnlimited; }},
      {"a memory that the model lacks",
       [](ModelDescription& m) { AttentionOf(m).sees = Attention::Sees::kMemory; }},
      {"attention to what follows",
       [](ModelDescription& m) { AttentionOf(m).sees = Attention::Sees::kAll; }},
      {"a query reaches beyond its 3 relative positions",
       [](ModelDescription& m) {
         AttentionOf(m).positions = RelativePositions{.rows = 4, .zero_row = 3};
       }},
      {"inputs are carried in a window",
       [](ModelDescription& m) {
         AttentionOf(m).carries = Attention::Carries::kInputs;
       }},
      {"attention to the past beside a memory",
       [](ModelDescription& m) { m.memory = FeedbackMemory{}; }},
      {"whole sequences and a classifier go together",
       [](ModelDescription& m) { m.whole_sequences = true; }},
      {"3 different windows",
       [](ModelDescription& m) {
         m.layers.push_back(m.layers[0]);
         AttentionOf(m).window = 3;
         m.layers.push_back(m.layers[0]);
         AttentionOf(m).window = 4;
       }},
      {"different windows without a context",
       [](ModelDescription& m) {
         AttentionOf(m).window = 3;
         m.layers.push_back(m.layers[0]);
         AttentionOf(m).window = 4;
         m.context = StateSpec::kUnlimited;
       }},
      {"rotary positions on 6 numbers of a head",
       [](ModelDescription& m) { AttentionOf(m).positions = Rotary{.width = 6}; }},
      {"rotary positions without a context",
       [](ModelDescription& m) {
         AttentionOf(m).positions = Rotary{};
         AttentionOf(m).window = 3;
         m.context = StateSpec::kUnlimited;
       }},
      {"a norm of heads that is not an RMS norm",
       [](ModelDescription& m) { AttentionOf(m).key_norm = Norm{}; }},
      {"a norm without an epsilon",
       [](ModelDescription& m) { m.layers[0][0].norm.eps = 0; }},
      {"a scale that is not a positive number",
       [](ModelDescription& m) { AttentionOf(m).scale = -1.0; }},
      {"no hidden width",
       [](ModelDescription& m) { m.layers[0][1].block = FeedForward{.hidden = 0}; }},
      {"the order of features is 8",
       [](ModelDescription& m) {
         m.layers[0][1].block = FastWeights{.heads = 1, .width = 4, .map = {.nu = 8}};
       }},
      {"a size that is not in",
       [](ModelDescription& m) {
         m.layers[0][1].block = FeedForward{.hidden = int64_t{1} << 40};
       }},
      {"exceed 2^40 numbers",
       [](ModelDescription& m) {
         m.width = 1 << 20;
         m.layers[0][1].block = FeedForward{.hidden = 1 << 20};
       }},
  };
  for (const Case& one : cases) {
    ModelDescription model = Small();
    ASSERT_TRUE(CheckDescription(model).ok()) << CheckDescription(model);
    one.break_it(model);
    EXPECT_THAT(std::string(CheckDescription(model).message()), HasSubstr(one.fault));
  }
}

TEST(DescriptionTest, TensorsFollow) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const TensorShape& tensor : TensorsOf(Small()))
    shapes[tensor.name] = tensor.shape;
  EXPECT_THAT(shapes["layers.0.attn.query.weight"], ElementsAre(8, 6));
  EXPECT_THAT(shapes["layers.0.attn.output.weight"], ElementsAre(6, 8));
  EXPECT_THAT(shapes["layers.0.ff.in.bias"], ElementsAre(7));
  EXPECT_THAT(shapes["head.weight"], ElementsAre(5, 6));
  EXPECT_FALSE(shapes.contains("layers.0.attn.query.bias"));
}

TEST(DescriptionTest, EntriesOfSeveralBlocksOfALayerHaveNamesOfTheirOwn) {
  ModelDescription model = Small();
  EXPECT_THAT(Names(StateOf(model).spec), ElementsAre("layer0.key", "layer0.value"));
  model.layers[0].push_back(
      {.name = "fast", .block = FastWeights{.heads = 1, .width = 2}});
  EXPECT_THAT(Names(StateOf(model).spec),
              ElementsAre("layer0.attn.key", "layer0.attn.value", "layer0.fast.wt"));
  EXPECT_THAT(StateOf(model).first[0], ElementsAre(0, 2, 2));
}

TEST(DescriptionTest, MasksOfBlocksOfOneKindHaveSitesOfTheirOwn) {
  ModelDescription model = Small();
  model.layers.push_back(model.layers[0]);
  EXPECT_THAT(DropoutSites(model), ElementsAre(ElementsAre(0, 0), ElementsAre(1, 1)));
  model.layers[1].push_back({.name = "more", .block = FeedForward{.hidden = 2}});
  EXPECT_THAT(DropoutSites(model)[1], ElementsAre(1, 1, 1025));
}

}  // namespace
}  // namespace mnemon
