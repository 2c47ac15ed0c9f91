// SPDX-License-Identifier: MIT
#include "model/sequence/described_model.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>

#include "base/error.h"
#include "base/status_macros.h"
#include "model/blocks/affine_torch.h"
#include "model/blocks/attention/forward_torch.h"
#include "model/blocks/ends/forward_torch.h"
#include "model/blocks/fast_weights/forward_torch.h"
#include "model/blocks/feed_forward/forward_torch.h"
#include "model/sequence/unrolled_memory.h"

namespace mnemon {
namespace {

class DescribedModel final : public Model {
 public:
  explicit DescribedModel(const ModelDescription& model)
      : model_(model),
        carry_(CarryOf(model)),
        sites_(DropoutSites(model)),
        weights_(TensorsOf(model)) {}

  const ModelDescription& description() const override { return model_; }
  const StateSpec& carry_spec() const override { return carry_.spec; }

  absl::StatusOr<ForwardResult> Forward(const at::Tensor& tokens, const Carry& carry,
                                        const ForwardOptions& options) const override {
    MNEMON_RETURN_IF_ERROR(CheckCall(tokens, carry, options));
    const Dropout dropout(model_.dropout, options.dropout, tokens.size(0));
    if (model_.memory) return ForwardUnrolled(tokens, carry, options, dropout);
    ForwardResult result{
        .logits = {},
        .carry = {.position = carry.position + tokens.size(1), .tensors = {}}};
    if (model_.whole_sequences) result.carry.position = 0;
    at::Tensor x = Embed(model_.embedding, weights_, tokens, carry.position);
    if (model_.embedding.drops) x = dropout(x, DropoutKind::kEmbedding);
    for (size_t i = 0; i < model_.layers.size(); ++i) {
      for (size_t j = 0; j < model_.layers[i].size(); ++j) {
        const SubLayer& sub = model_.layers[i][j];
        const std::string base = BaseOf(i, sub);
        const SubLayerPlace place = {.base = base,
                                     .norm = weights_.Norm(base + ".norm", sub.norm),
                                     .first = carry_.first[i][j],
                                     .entries = EntriesOf(i, j),
                                     .drop = dropout.At(sites_[i][j])};
        MNEMON_ASSIGN_OR_RETURN(x, Apply(sub, place, x, carry, options, result));
      }
    }
    result.logits = Logits(model_.head, weights_, x, dropout);
    return result;
  }

  void Visit(const TensorVisitor& visit) override { weights_.Visit(visit); }

 private:
  struct SubLayerPlace {
    std::string base;
    NormTensors norm;
    size_t first = 0, entries = 0;  // in the carry
    Dropout drop;
  };

  absl::Status CheckCall(const at::Tensor& tokens, const Carry& carry,
                         const ForwardOptions& options) const {
    if (model_.whole_sequences) return CheckEncode(model_, tokens, carry);
    MNEMON_RETURN_IF_ERROR(CheckForward(model_, carry_.spec, tokens, carry, options));
    if (options.maps != AttentionMaps::kNone &&
        FirstBlock<Attention>(model_) == nullptr) {
      return InvalidField("maps", "no block attends to keys: there are no maps");
    }
    for (const std::vector<SubLayer>& layer : model_.layers) {
      for (const SubLayer& sub : layer) {
        if (const auto* attention = std::get_if<Attention>(&sub.block)) {
          MNEMON_RETURN_IF_ERROR(
              CheckReach(*attention, carry.position, tokens.size(1)));
        }
      }
    }
    return absl::OkStatus();
  }

  // Number of entries of a sub-layer in the carry: those before the next sub-layer's
  // first.
  size_t EntriesOf(size_t layer, size_t sub) const {
    size_t end = carry_.spec.entries.size();
    if (sub + 1 < carry_.first[layer].size()) {
      end = carry_.first[layer][sub + 1];
    } else if (layer + 1 < carry_.first.size()) {
      end = carry_.first[layer + 1].front();
    }
    return end - carry_.first[layer][sub];
  }

  // x after a sub-layer.
  absl::StatusOr<at::Tensor> Apply(const SubLayer& sub, const SubLayerPlace& place,
                                   const at::Tensor& x, const Carry& carry,
                                   const ForwardOptions& options,
                                   ForwardResult& result) const {
    const BlockCall call = {
        .carried = carry.fresh()
                       ? std::span<const at::Tensor>()
                       : std::span(carry.tensors).subspan(place.first, place.entries),
        .position = carry.position,
        .kept = carry_.spec.growth() == Growth::kRing ? carry_.spec.capacity()
                                                      : StateSpec::kUnlimited,
        .next = result.carry.tensors,
        .drop = place.drop};
    if (const auto* feed = std::get_if<FeedForward>(&sub.block)) {
      const at::Tensor y = mnemon::Forward(*feed, weights_, place.base,
                                           Normed(x, place.norm), place.drop);
      return Added(sub, place, x, y, DropoutKind::kFeedForwardOutput);
    }
    at::Tensor y;
    if (const auto* fast = std::get_if<FastWeights>(&sub.block)) {
      y = mnemon::Forward(*fast, weights_, place.base, Normed(x, place.norm), call);
    } else {
      const auto& attention = std::get<Attention>(sub.block);
      MNEMON_ASSIGN_OR_RETURN(const AttentionOutput out,
                              Attend(attention, place, x, call, options, result));
      y = out.y;
    }
    return Added(sub, place, x, y, DropoutKind::kAttentionOutput);
  }

  // End of a sub-layer whose block returned y.
  at::Tensor Added(const SubLayer& sub, const SubLayerPlace& place, const at::Tensor& x,
                   const at::Tensor& y, DropoutKind kind) const {
    at::Tensor given = place.drop(
        Normed(y, weights_.Norm(place.base + ".behind_norm", sub.behind)), kind);
    if (sub.scale != 1) given = given * sub.scale;
    return Normed(x + given, weights_.Norm(place.base + ".after_norm", sub.after));
  }

  // With attention maps if the call wants them.
  absl::StatusOr<AttentionOutput> Attend(const Attention& attention,
                                         const SubLayerPlace& place,
                                         const at::Tensor& x, const BlockCall& call,
                                         const ForwardOptions& options,
                                         ForwardResult& result) const {
    AttentionOutput out;
    ScoreMask mask;
    if (model_.whole_sequences) {
      MNEMON_ASSIGN_OR_RETURN(mask, WholeMask(attention, options.mask, x));
      out =
          ForwardWhole(attention, weights_, place.base, place.norm, x, mask, call.drop);
    } else {
      out = mnemon::Forward(attention, weights_, place.base, place.norm, x, call);
    }
    if (options.maps == AttentionMaps::kUsed) {
      result.maps.push_back(out.weights);
    } else if (options.maps == AttentionMaps::kNotebook) {
      result.maps.push_back(NotebookMap(attention, weights_, place.base, x, mask));
    }
    return out;
  }

  absl::StatusOr<ForwardResult> ForwardUnrolled(const at::Tensor& tokens,
                                                const Carry& carry,
                                                const ForwardOptions& options,
                                                const Dropout& dropout) const {
    UnrolledMemory unrolled(model_, weights_, sites_, dropout,
                            carry.fresh() ? at::Tensor() : carry.tensors[0]);
    at::Tensor x = unrolled.Run(Embed(model_.embedding, weights_, tokens.t(), 0),
                                options.maps == AttentionMaps::kUsed);
    return ForwardResult{.logits = Logits(model_.head, weights_, x, dropout),
                         .carry = {.position = carry.position + tokens.size(1),
                                   .tensors = {unrolled.memory()}},
                         .maps = unrolled.TakeMaps()};
  }

  const ModelDescription model_;
  const DescribedState carry_;
  const std::vector<std::vector<int64_t>> sites_;
  NamedTensors weights_;
};

}  // namespace

std::unique_ptr<Model> MakeDescribedModel(const ModelDescription& model) {
  return std::make_unique<DescribedModel>(model);
}

}  // namespace mnemon
