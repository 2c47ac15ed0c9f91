// SPDX-License-Identifier: MIT
#include "model/gradient/transformer_pass.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "base/float_mode.h"
#include "model/gradient/attention_block.h"
#include "model/gradient/fast_weight_block.h"
#include "model/gradient/feed_forward_block.h"
#include "model/gradient/loss_block.h"
#include "model/gradient/mixer_block.h"
#include "model/gradient/phases.h"
#include "model/gradient/team.h"
#include "model/positions/alibi.h"
#include "model/positions/sinusoid.h"
#include "model/weights/tensor_names.h"

namespace mnemon {
namespace {

// Rows of each thread that go through the layers together: enough for products, few
// enough for caches.
constexpr int64_t kGroupRows = 384;
// So many sequences for each thread are shared out evenly enough as they are.
constexpr int kEvenSequences = 8;

AttentionOptions CausalOptions(const ModelConfig& config) {
  const bool relative = config.position_kind == PositionKind::kRelative;
  return {.memory = AttentionMemory::kKeys,
          .most_memory = config.positions,
          .most_keys = config.positions,
          .reach = config.positions,
          .zero_row = relative ? config.positions - 1 : -1,
          .table_rows = config.positions,
          .slopes = config.position_kind == PositionKind::kAlibi
                        ? AlibiSlopes(config.heads)
                        : std::vector<double>()};
}

AttentionOptions EncoderOptions(const ModelConfig& config) {
  return {.memory = AttentionMemory::kNone,
          .most_keys = config.positions,
          .causal = config.mask == Mask::kCausal,
          .reach = config.positions,
          .slopes = config.position_kind == PositionKind::kAlibi
                        ? AlibiSlopes(config.heads)
                        : std::vector<double>()};
}

AttentionOptions TransformerXlOptions(const ModelConfig& config) {
  const bool sliding = config.window == Window::kSliding;
  constexpr int64_t kAny = int64_t{1} << 40;
  return {.memory = AttentionMemory::kInputs,
          .most_memory = config.mem_len,
          .most_keys = sliding ? kAny : config.positions + 1,
          .reach = sliding ? config.mem_len : kAny,
          .zero_row = config.positions,
          .table_rows = 2 * config.positions,
          .slopes = {}};
}

// The mixer of one layer.
template <class Real>
using MakeMixer = std::function<std::unique_ptr<MixerBlock<Real>>(int64_t layer)>;

template <class Real>
class TransformerPass final : public GradientPass<Real> {
 public:
  TransformerPass(const ModelConfig& config, const MakeMixer<Real>& make_mixer,
                  std::unique_ptr<LossBlock<Real>> loss, const FlatLayout& layout,
                  ThreadPool& pool)
      : config_(config),
        encoder_(config.architecture == "encoder"),
        embed_(layout.At(names::Weight(names::kEmbed))),
        positions_(layout.Find(names::Weight(names::kPositions))),
        embed_sums_(config.tie_head ? layout.size() : embed_),
        sums_size_(layout.size() +
                   (config.tie_head ? config.vocab * config.d_model : 0)),
        phases_(pool),
        loss_(std::move(loss)),
        scratch_(static_cast<size_t>(pool.count())) {
    for (int64_t i = 0; i < config.layers; ++i) {
      layers_.push_back({.mixer = make_mixer(i),
                         .feed_forward = FeedForwardBlock<Real>(config, layout, i),
                         .input = {},
                         .middle = {}});
      layers_.back().mixer->PlaceSums(sums_size_);
      sums_size_ += layers_.back().mixer->more_sums();
    }
    jobs_ = std::vector<GradientJobs<Real>>(static_cast<size_t>(config.layers + 2));
  }

  absl::StatusOr<PassLoss> Run(const PassInput& input, const Real* weights, Real* sums,
                               PassCarry<Real>& carry) override {
    const PassStep<Real> step = MakeStep(config_, input, weights, sums);
    if (absl::Status fits = layers_[0].mixer->Check(step, carry.position); !fits.ok()) {
      return fits;
    }
    try {
      Prepare(step, input, carry);
      const absl::Status done =
          phases_.Run([&](int worker) { Work(step, input, carry, worker); });
      if (!done.ok()) return done;
      Continue(step, input, carry);
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("memory does not suffice for a batch");
    }
    return loss_->Loss(step);
  }

  int64_t sums_size() const override { return sums_size_; }

  void Finish(const Real* weights, Real* sums) const override {
    const IeeeFloatMode mode;
    for (const Layer& layer : layers_) layer.mixer->FinishSums(weights, sums);
    if (embed_sums_ == embed_) return;
    Real* const gradient = sums + embed_;
    AddScaled<Real>(config_.vocab * config_.d_model, 1, sums + embed_sums_, gradient,
                    gradient);
  }

  std::vector<Part> UnusedGradients() const override {
    std::vector<Part> unused;
    if (positions_ >= 0) {
      unused.push_back({positions_ + used_positions_ * config_.d_model,
                        positions_ + config_.positions * config_.d_model});
    }
    for (const Layer& layer : layers_) {
      for (const Part& range : layer.mixer->UnusedGradients()) unused.push_back(range);
    }
    return unused;
  }

 private:
  struct Layer {
    std::unique_ptr<MixerBlock<Real>> mixer;
    FeedForwardBlock<Real> feed_forward;
    Slab<Real> input, middle;  // of the layer, and between its sub-layers [rows, D]
  };

  // The entries of a layer, none where the carry is fresh.
  std::span<const typename PassCarry<Real>::Entry> EntriesOf(
      const PassCarry<Real>& carry, size_t layer) const {
    if (carry.entries.empty()) return {};
    const auto count = static_cast<size_t>(layers_[layer].mixer->carry_entries());
    return std::span(carry.entries).subspan(layer * count, count);
  }

  void Prepare(const PassStep<Real>& step, const PassInput& input,
               const PassCarry<Real>& carry) {
    const int64_t rows = step.rows(), width = config_.d_model;
    for (size_t i = 0; i < layers_.size(); ++i) {
      Layer& layer = layers_[i];
      layer.mixer->Reserve(step, EntriesOf(carry, i));
      layer.feed_forward.Reserve(rows, step.dropout.has_value(),
                                 feed_forward_gradients_);
      layer.input.Reserve(rows, width);
      layer.middle.Reserve(rows, width);
    }
    output_.Reserve(rows, width);
    loss_->Reserve(step);
    for (Slab<Real>& slab : stream_) slab.Reserve(rows, width);
    position_ids_.resize(static_cast<size_t>(rows));
    for (int64_t r = 0; r < rows; ++r) {
      position_ids_[r] = static_cast<int32_t>(r % step.time);
    }
    used_positions_ = std::max(used_positions_, carry.position + step.time);
    PreparePositions(step.time, carry.position);
    if (step.gradients != nullptr) PrepareJobs(step, input, carry);
  }

  // Rows that are added to the embeddings [T, D].
  void PreparePositions(int64_t time, int64_t first) {
    if (config_.position_kind != PositionKind::kSinusoidal) return;
    const int64_t width = config_.d_model;
    sinusoids_.Reserve(time, width);
    std::vector<double> row(static_cast<size_t>(width));
    for (int64_t t = 0; t < time; ++t) {
      SinusoidRow(first + t, row);
      std::copy(row.begin(), row.end(), sinusoids_.rows(t).data);
    }
  }

  // stages: the head, layers from the last on, the embedding.
  void PrepareJobs(const PassStep<Real>& step, const PassInput& input,
                   const PassCarry<Real>& carry) {
    for (GradientJobs<Real>& jobs : jobs_) jobs.Clear();
    loss_->AddJobs(step, output_.rows(), jobs_[0]);
    const size_t count = layers_.size();
    for (size_t i = 0; i < count; ++i) {
      Layer& layer = layers_[i];
      GradientJobs<Real>& jobs = jobs_[count - i];
      layer.feed_forward.AddJobs(step, layer.middle.rows(), Behind(i),
                                 feed_forward_gradients_, jobs);
      layer.mixer->AddJobs(step, layer.input.rows(), Between(i), jobs);
    }
    EmbeddingGradientCall<Real> call = {.vocab = config_.vocab,
                                        .width = config_.d_model,
                                        .layout = step.layout(),
                                        .ids = input.tokens,
                                        .dx = Before(0),
                                        .scale = Scale(),
                                        .shards = step.shards,
                                        .out = step.gradients + embed_sums_};
    jobs_[count + 1].Add(call);
    if (positions_ < 0) return;
    call.vocab = step.time;
    call.ids = position_ids_.data();
    call.scale = 1;
    call.out = step.gradients + positions_ + carry.position * config_.d_model;
    jobs_[count + 1].Add(call);
  }

  Real Scale() const {
    return config_.embed_scale
               ? static_cast<Real>(std::sqrt(static_cast<double>(config_.d_model)))
               : Real{1};
  }

  // Gradients of the stream behind layer i, between its sub-layers, and before it: the
  // layers use three slabs in turn.
  RowsOfReal<Real> Behind(size_t i) { return stream_[Turn(i, 0)].rows(); }
  RowsOfReal<Real> Between(size_t i) { return stream_[Turn(i, 1)].rows(); }
  RowsOfReal<Real> Before(size_t i) { return stream_[Turn(i, 2)].rows(); }
  size_t Turn(size_t i, size_t place) const {
    return (2 * (layers_.size() - 1 - i) + place) % 3;
  }

  RowsOfReal<Real> Output(size_t i) {
    return i + 1 < layers_.size() ? layers_[i + 1].input.rows() : output_.rows();
  }

  // Threads that had fewer sequences than others would wait for them.
  bool Together(int64_t sequences) const {
    const int workers = phases_.workers();
    return sequences % workers != 0 && sequences < int64_t{kEvenSequences} * workers;
  }

  // What a member of a team does for a group of sequences.
  struct Shares {
    Part rows, heads;
    Part memory;  // rows of it that are projected
  };

  // Calls each(shares), which consists of calls of team.Do, for groups of the team's
  // sequences.
  template <class Each>
  void ForGroups(const PassStep<Real>& step, const Team& team, const Each& each) const {
    const Part all = team.SequencesOf(step.sequences);
    const int64_t most = std::max<int64_t>(1, team.size() * kGroupRows / step.time);
    const int64_t memory = layers_[0].mixer->projected_memory();
    team.Run([&] {
      for (int64_t b = all.begin; b < all.end; b += most) {
        const int64_t end = std::min(all.end, b + most);
        each(Shares{.rows = team.ShareOf(step.RowsOf({b, end})),
                    .heads = team.ShareOf({b * config_.heads, end * config_.heads}),
                    .memory = team.ShareOf({b * memory, end * memory})});
      }
    });
  }

  void Work(const PassStep<Real>& step, const PassInput& input,
            const PassCarry<Real>& carry, int worker) {
    PassScratch<Real>& scratch = scratch_[worker];
    const Team team(phases_, worker, Together(step.sequences));
    phases_.Do(worker, [&] { Pack(step, worker); });
    ForGroups(step, team, [&](const Shares& own) {
      Forward(step, input, carry, team, own, scratch);
    });
    if (step.gradients == nullptr) return;
    const size_t count = layers_.size();
    const auto jobs = [&](size_t stage) {
      phases_.Do(worker, [&] { jobs_[stage].Work(scratch.gradient); });
    };
    ForGroups(step, team, [&](const Shares& own) {
      team.Do([&] {
        loss_->Backward(step, own.rows, output_.rows(), Behind(count - 1), scratch);
      });
    });
    jobs(0);
    for (size_t i = count; i-- > 0;) {
      ForGroups(step, team,
                [&](const Shares& own) { LayerBackward(step, i, team, own, scratch); });
      jobs(count - i);
    }
    jobs(count + 1);
  }

  void Pack(const PassStep<Real>& step, int worker) {
    for (Layer& layer : layers_) {
      layer.mixer->Pack(step, worker, phases_.workers());
      layer.feed_forward.Pack(step, worker, phases_.workers());
    }
    loss_->Pack(step, worker, phases_.workers());
    if (worker > 0 || step.gradients == nullptr || positions_ < 0) return;
    // Those of other batches.
    std::fill_n(step.gradients + positions_, used_positions_ * config_.d_model,
                Real{0});
  }

  void Forward(const PassStep<Real>& step, const PassInput& input,
               const PassCarry<Real>& carry, const Team& team, const Shares& own,
               PassScratch<Real>& scratch) {
    const auto project = [&](Layer& layer) {
      layer.mixer->Project(step, own.rows, own.memory, layer.input.rows());
    };
    team.Do([&] {
      Embed(step, input, carry.position, own.rows, scratch);
      project(layers_[0]);
    });
    for (size_t i = 0; i < layers_.size(); ++i) {
      Layer& layer = layers_[i];
      team.Do([&] { layer.mixer->Mix(step, own.heads, scratch); });
      team.Do([&] {
        layer.mixer->Finish(step, own.rows, layer.input.rows(), layer.middle.rows(),
                            scratch);
        layer.feed_forward.Forward(step, Team::Alone(), own.rows, layer.middle.rows(),
                                   Output(i), scratch);
        if (i + 1 < layers_.size()) {
          project(layers_[i + 1]);
        } else {
          loss_->Forward(step, own.rows, output_.rows(), input.targets, scratch);
        }
      });
    }
  }

  void LayerBackward(const PassStep<Real>& step, size_t i, const Team& team,
                     const Shares& own, PassScratch<Real>& scratch) {
    Layer& layer = layers_[i];
    team.Do([&] {
      layer.feed_forward.Backward(step, Team::Alone(), own.rows, layer.middle.rows(),
                                  Behind(i), Between(i), feed_forward_gradients_,
                                  scratch);
      layer.mixer->FinishBackward(step, own.rows, Between(i), scratch);
    });
    team.Do([&] { layer.mixer->MixBackward(step, own.heads, scratch); });
    team.Do([&] {
      layer.mixer->ProjectBackward(step, own.rows, layer.input.rows(), Between(i),
                                   Before(i));
      if (i == 0) DropEmbedding(step, own.rows, Before(0), scratch);
    });
  }

  void Embed(const PassStep<Real>& step, const PassInput& input, int64_t first,
             Part rows, PassScratch<Real>& scratch) {
    const int64_t width = config_.d_model;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const int64_t t = r % step.time;
      const Real* added = nullptr;
      if (config_.position_kind == PositionKind::kSinusoidal) {
        added = sinusoids_.rows(t).data;
      } else if (positions_ >= 0) {
        added = step.weights + positions_ + (first + t) * width;
      }
      AddScaled(width, Scale(), step.weights + embed_ + input.tokens[r] * width, added,
                layers_[0].input.rows(r).data);
    }
    DropEmbedding(step, rows, layers_[0].input.rows(), scratch);
  }

  // The encoder drops from embeddings, too.
  void DropEmbedding(const PassStep<Real>& step, Part rows, RowsOfReal<Real> x,
                     PassScratch<Real>& scratch) const {
    if (!encoder_ || !step.dropout) return;
    step.Drop({.kind = DropoutKind::kEmbedding}, rows, config_.d_model, x, x, scratch);
  }

  // The carry behind the batch.
  void Continue(const PassStep<Real>& step, const PassInput& input,
                PassCarry<Real>& carry) {
    if (!input.continues || encoder_) {
      carry = {};
      return;
    }
    PassCarry<Real> next;
    next.position = carry.position + step.time;
    for (Layer& layer : layers_) {
      for (auto& entry : layer.mixer->Continue(step, layer.input.rows())) {
        next.entries.push_back(std::move(entry));
      }
    }
    carry = std::move(next);
  }

  const ModelConfig config_;
  const bool encoder_;  // takes whole sequences, and drops from embeddings too
  const int64_t embed_, positions_;  // in the layout; positions -1: not learned
  // Where the embedding's sums begin: in its own place or, where the sums of a tied
  // head are there, behind the layout.
  const int64_t embed_sums_;
  int64_t sums_size_;  // with those of the layers
  Phases phases_;
  std::vector<Layer> layers_;
  const std::unique_ptr<LossBlock<Real>> loss_;
  Slab<Real> output_;                  // of the last layer
  Slab<Real> sinusoids_;               // [T, D]
  int64_t used_positions_ = 0;         // by any batch so far
  std::vector<int32_t> position_ids_;  // [rows]: t
  Slab<Real> stream_[3];
  FeedForwardGradients<Real> feed_forward_gradients_;
  std::vector<GradientJobs<Real>> jobs_;
  std::vector<PassScratch<Real>> scratch_;  // of each worker
};

// With the rows that the layers share.
template <class Real>
MakeMixer<Real> AttentionMaker(const ModelConfig& config,
                               const AttentionOptions& options,
                               const FlatLayout& layout) {
  const auto shared = std::make_shared<AttentionBlockRows<Real>>();
  return [=](int64_t layer) {
    return std::make_unique<AttentionBlock<Real>>(config, options, layout, layer,
                                                  shared);
  };
}

}  // namespace

template <class Real>
std::unique_ptr<GradientPass<Real>> MakeCausalPass(const ModelConfig& config,
                                                   const FlatLayout& layout,
                                                   ThreadPool& pool) {
  return std::make_unique<TransformerPass<Real>>(
      config, AttentionMaker<Real>(config, CausalOptions(config), layout),
      MakeLanguageLoss<Real>(config, layout), layout, pool);
}

template <class Real>
std::unique_ptr<GradientPass<Real>> MakeTransformerXlPass(const ModelConfig& config,
                                                          const FlatLayout& layout,
                                                          ThreadPool& pool) {
  return std::make_unique<TransformerPass<Real>>(
      config, AttentionMaker<Real>(config, TransformerXlOptions(config), layout),
      MakeLanguageLoss<Real>(config, layout), layout, pool);
}

template <class Real>
std::unique_ptr<GradientPass<Real>> MakeFastWeightsPass(const ModelConfig& config,
                                                        const FlatLayout& layout,
                                                        ThreadPool& pool) {
  const auto gradients = std::make_shared<FastWeightGradients<Real>>();
  return std::make_unique<TransformerPass<Real>>(
      config,
      [&](int64_t layer) {
        return std::make_unique<FastWeightBlock<Real>>(config, layout, layer,
                                                       gradients);
      },
      MakeLanguageLoss<Real>(config, layout), layout, pool);
}

template <class Real>
std::unique_ptr<GradientPass<Real>> MakeEncoderPass(const ModelConfig& config,
                                                    const FlatLayout& layout,
                                                    ThreadPool& pool) {
  return std::make_unique<TransformerPass<Real>>(
      config, AttentionMaker<Real>(config, EncoderOptions(config), layout),
      MakeClassifierLoss<Real>(config, layout), layout, pool);
}

template std::unique_ptr<GradientPass<float>> MakeCausalPass(const ModelConfig&,
                                                             const FlatLayout&,
                                                             ThreadPool&);
template std::unique_ptr<GradientPass<float>> MakeTransformerXlPass(const ModelConfig&,
                                                                    const FlatLayout&,
                                                                    ThreadPool&);
template std::unique_ptr<GradientPass<float>> MakeFastWeightsPass(const ModelConfig&,
                                                                  const FlatLayout&,
                                                                  ThreadPool&);
template std::unique_ptr<GradientPass<float>> MakeEncoderPass(const ModelConfig&,
                                                              const FlatLayout&,
                                                              ThreadPool&);
template std::unique_ptr<GradientPass<double>> MakeCausalPass(const ModelConfig&,
                                                              const FlatLayout&,
                                                              ThreadPool&);
template std::unique_ptr<GradientPass<double>> MakeTransformerXlPass(const ModelConfig&,
                                                                     const FlatLayout&,
                                                                     ThreadPool&);
template std::unique_ptr<GradientPass<double>> MakeFastWeightsPass(const ModelConfig&,
                                                                   const FlatLayout&,
                                                                   ThreadPool&);
template std::unique_ptr<GradientPass<double>> MakeEncoderPass(const ModelConfig&,
                                                               const FlatLayout&,
                                                               ThreadPool&);

}  // namespace mnemon
