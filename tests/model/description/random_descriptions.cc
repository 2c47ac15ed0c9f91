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
    ModelDescription model{
        .width = From(5, 26),
        .vocab = From(5, 11),
        .dropout = 0.2,
        .embedding = {},
        .layers = {},
        .memory = {},
        .head = {.norm = Applied(), .tied = Often(3), .bias = Often(2)}};
    if (kind_ == RandomKind::kWhole || Often(2)) {
      model.context = From(17, 40);
    } else {
      window_ = From(kind_ == RandomKind::kMemory ? 1 : 0, 6);
      if (kind_ == RandomKind::kPast && Often(2)) model.context = From(17, 40);
    }
    context_ = model.context;
    mixed_ = kind_ == RandomKind::kPast && !window_ && Often(3);
    if (kind_ == RandomKind::kMemory) {
      model.memory = FeedbackMemory{.shared = Often(2)};
      heads_ = From(1, 3);
      head_width_ = From(2, 9);
    } else {
      if (Often(2)) model.embedding.scale = 1.5;
      if (!window_) model.embedding.positions = PositionsOfEmbedding();
    }
    if (kind_ == RandomKind::kPast && Often(3)) model.head.scale = 0.7;
    if (kind_ != RandomKind::kWhole && Often(3)) model.head.cap = 2.5;
    if (kind_ == RandomKind::kWhole) {
      model.whole_sequences = true;
      model.embedding.drops = Often(2);
      model.head.classifier =
          Classifier{.activation = Drawn(), .norm_logits = Often(2)};
    }
    for (int64_t layers = From(1, 3); layers > 0; --layers) {
      std::vector<SubLayer>& layer = model.layers.emplace_back();
      for (int64_t blocks = From(1, 3); blocks > 0; --blocks) {
        SubLayer& sub = layer.emplace_back(
            SubLayer{.name = std::string(1, static_cast<char>('a' + layer.size())),
                     .norm = DrawnNorm(),
                     .block = {}});
        if (kind_ == RandomKind::kPast) DrawEnd(sub);
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
  Activation Drawn() { return static_cast<Activation>(From(0, 5)); }
  Norm DrawnNorm() {
    if (Often(5)) return {.kind = Often(2) ? Norm::Kind::kNone : Norm::Kind::kKept};
    return Applied();
  }
  void DrawEnd(SubLayer& sub) {
    if (Often(3)) sub.behind = Applied();
    if (Often(4)) sub.after = Applied();
    if (Often(3)) sub.scale = 0.6;
  }
  Norm Applied() {
    return {.kind = Often(2) ? Norm::Kind::kLayer : Norm::Kind::kRms,
            .eps = Often(2) ? 1e-5 : 1e-3,
            .one_plus = Often(3)};
  }

  Embedding::Positions PositionsOfEmbedding() {
    using Positions = Embedding::Positions;
    constexpr Positions kAll[] = {Positions::kNone, Positions::kSinusoidal,
                                  Positions::kLearned};
    return kAll[From(0, 2)];
  }

  Block MakeBlock(const SubLayer& sub) {
    switch (From(0, 3)) {
      case 0:
        return FeedForward{.hidden = From(3, 40),
                           .activation = Drawn(),
                           .gated = Often(3),
                           .bias = Often(2)};
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

  void AddTurns(Attention& attention) {
    const auto norm = [&]() -> Norm {
      return {.kind = Often(2) ? Norm::Kind::kRms : Norm::Kind::kNone,
              .eps = 1e-3,
              .one_plus = Often(2)};
    };
    attention.query_norm = norm();
    attention.key_norm = norm();
    if (Often(2)) attention.scale = 0.1 * static_cast<double>(From(1, 9));
    if (Often(3) && !attention.alibi())
      attention.cap = 0.5 * static_cast<double>(From(1, 9));
    attention.gated = Often(3);
    attention.biases.gate = attention.gated && Often(2);
    if (context_ == StateSpec::kUnlimited || attention.alibi() || Often(3)) return;
    Rotary rotary{.width = 2 * From(1, attention.width / 2),
                  .theta = 10.0 * static_cast<double>(From(1, 100)),
                  .magnitude = Often(3) ? 1.25 : 1.0};
    switch (From(0, 3)) {
      case 1:
        rotary.scaling = LinearScaling{.factor = 2.5};
        break;
      case 2:
        rotary.scaling = Llama3Scaling{.factor = 4, .low = 1, .high = 3, .context = 32};
        break;
      case 3:
        rotary.scaling = YarnScaling{.factor = 4, .fast = 8, .slow = 1, .context = 64};
        break;
      default:
        break;
    }
    attention.positions = rotary;
  }

  Attention MakeAttention(const SubLayer& sub) {
    Attention attention{.heads = From(1, 3), .width = From(2, 9), .window = window_};
    if (mixed_ && Often(2)) attention.window = 5;
    attention.biases = {
        .query = Often(2), .key = Often(2), .value = Often(2), .output = Often(2)};
    if (kind_ == RandomKind::kMemory) {
      attention.heads = heads_;
      attention.width = head_width_;
      attention.sees = Attention::Sees::kMemory;
    } else if (kind_ == RandomKind::kWhole) {
      if (Often(2)) attention.sees = Attention::Sees::kAll;
      if (Often(2)) attention.positions = Alibi{};
    } else if (window_ && sub.norm.kind == Norm::Kind::kLayer && !sub.norm.one_plus &&
               Often(2)) {
      attention.carries = Attention::Carries::kInputs;
    }
    attention.groups = attention.heads;
    if (kind_ == RandomKind::kPast && Often(3)) attention.positions = Alibi{};
    if (kind_ == RandomKind::kMemory || (kind_ == RandomKind::kPast && Often(2))) {
      const int64_t farthest = attention.window.value_or(context_ - 1) + From(0, 3);
      RelativePositions relative{.rows = farthest, .zero_row = farthest};
      if (kind_ == RandomKind::kMemory) {
        relative.tied = Often(2);
      } else {
        relative.rows += From(1, 4);
      }
      relative.past = farthest;
      attention.positions = relative;
    } else if (kind_ == RandomKind::kPast) {
      if (Often(2)) attention.heads *= From(2, 3);
      if (attention.carries == Attention::Carries::kKeys) AddTurns(attention);
    }
    return attention;
  }

  const RandomKind kind_;
  std::mt19937_64 random_;
  int64_t context_ = 0;
  std::optional<int64_t> window_;
  bool mixed_ = false;                  // windows of some blocks
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
