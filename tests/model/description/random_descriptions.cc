// SPDX-License-Identifier: MIT
#include "tests/model/description/random_descriptions.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "base/check.h"

namespace mnemon {
namespace {

class Maker {
 public:
  Maker(RandomKind kind, uint64_t seed) : kind_(kind), random_(seed) {}

  ModelDescription Make() {
    ModelDescription model{.width = From(5, 26),
                           .vocab = From(5, 11),
                           .dropout = 0.2,
                           .embedding = {},
                           .layers = {},
                           .memory = {},
                           .head = {.tied = Often(3)}};
    if (kind_ == RandomKind::kWhole || Often(2)) {
      model.context = From(17, 40);
    } else {
      window_ = From(kind_ == RandomKind::kMemory ? 1 : 0, 6);
    }
    context_ = model.context;
    if (kind_ == RandomKind::kMemory) {
      model.memory = FeedbackMemory{.shared = Often(2)};
      heads_ = From(1, 3);
      head_width_ = From(2, 9);
    } else {
      model.embedding.scaled = Often(2);
      if (!window_) model.embedding.positions = PositionsOfEmbedding();
    }
    if (kind_ == RandomKind::kWhole) {
      model.whole_sequences = true;
      model.embedding.drops = Often(2);
      model.head.classifier =
          Classifier{.activation = Drawn(), .norm_logits = Often(2)};
    }
    for (int64_t layers = From(1, 3); layers > 0; --layers) {
      std::vector<SubLayer>& layer = model.layers.emplace_back();
      for (int64_t blocks = From(1, 3); blocks > 0; --blocks) {
        SubLayer& sub = layer.emplace_back(SubLayer{
            .name = std::string(1, static_cast<char>('a' + layer.size())),
            .norm = Often(4) ? (Often(2) ? Norm::kNone : Norm::kKept) : Norm::kLayer,
            .block = {}});
        sub.block = MakeBlock(sub);
      }
    }
    // A model remembers something.
    SubLayer last{.name = "last", .block = {}};
    last.block = MakeAttention(last);
    model.layers.back().push_back(std::move(last));
    return model;
  }

 private:
  int64_t From(int64_t least, int64_t most) {
    return least +
           static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  // Once in `of` times.
  bool Often(int64_t of) { return From(1, of) == 1; }
  Activation Drawn() { return Often(2) ? Activation::kRelu : Activation::kGelu; }

  Embedding::Positions PositionsOfEmbedding() {
    using Positions = Embedding::Positions;
    constexpr Positions kAll[] = {Positions::kNone, Positions::kSinusoidal,
                                  Positions::kLearned};
    return kAll[From(0, 2)];
  }

  Block MakeBlock(const SubLayer& sub) {
    switch (From(0, 3)) {
      case 0:
        return FeedForward{
            .hidden = From(3, 40), .activation = Drawn(), .gated = Often(3)};
      case 1:
        if (kind_ == RandomKind::kPast) return MakeFastWeights();
        [[fallthrough]];
      default:
        return MakeAttention(sub);
    }
  }

  FastWeights MakeFastWeights() {
    FastWeights fast{.heads = From(1, 3),
                     .width = From(2, 9),
                     .rule = Often(2) ? UpdateRule::kDelta : UpdateRule::kSum,
                     .normalised = Often(2)};
    if (fast.width % 2 == 0 && Often(3)) {
      fast.map.elu = true;
    } else {
      fast.map.nu = From(1, std::min<int64_t>(3, 2 * fast.width - 1));
    }
    return fast;
  }

  Attention MakeAttention(const SubLayer& sub) {
    Attention attention{.heads = From(1, 3), .width = From(2, 9), .window = window_};
    attention.biases = {
        .query = Often(2), .key = Often(2), .value = Often(2), .output = Often(2)};
    if (kind_ == RandomKind::kMemory) {
      attention.heads = heads_;
      attention.width = head_width_;
      attention.sees = Attention::Sees::kMemory;
    } else if (kind_ == RandomKind::kWhole) {
      if (Often(2)) attention.sees = Attention::Sees::kAll;
      if (Often(2)) attention.positions = Alibi{};
    } else if (window_ && sub.norm == Norm::kLayer && Often(2)) {
      attention.carries = Attention::Carries::kInputs;
    }
    attention.groups = attention.heads;
    if (kind_ == RandomKind::kPast && Often(3)) attention.positions = Alibi{};
    if (kind_ == RandomKind::kMemory || (kind_ == RandomKind::kPast && Often(2))) {
      const int64_t farthest = window_.value_or(context_ - 1) + From(0, 3);
      RelativePositions relative{.rows = farthest, .zero_row = farthest};
      if (kind_ == RandomKind::kMemory) {
        relative.tied = Often(2);
      } else {
        relative.rows += From(1, 4);
      }
      relative.past = farthest;
      attention.positions = relative;
    } else if (kind_ == RandomKind::kPast && Often(2)) {
      attention.heads *= From(2, 3);
    }
    return attention;
  }

  const RandomKind kind_;
  std::mt19937_64 random_;
  int64_t context_ = 0;
  std::optional<int64_t> window_;
  int64_t heads_ = 0, head_width_ = 0;  // of all that read a memory
};

}  // namespace

ModelDescription RandomDescription(RandomKind kind, uint64_t seed) {
  ModelDescription model = Maker(kind, seed).Make();
  const absl::Status fits = CheckDescription(model);
  MNEMON_CHECK(fits.ok());
  return model;
}

std::vector<ModelDescription> RandomDescriptions(bool whole) {
  std::vector<ModelDescription> models;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    models.push_back(RandomDescription(RandomKind::kPast, seed));
    if (seed <= 3) models.push_back(RandomDescription(RandomKind::kMemory, seed));
    if (whole && seed <= 3)
      models.push_back(RandomDescription(RandomKind::kWhole, seed));
  }
  return models;
}

}  // namespace mnemon
