// SPDX-License-Identifier: MIT
#include "model/gradient/transformer_pass.h"

#include <algorithm>
#include <array>
#include <map>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "base/float_mode.h"
#include "model/blocks/attention/gradient.h"
#include "model/blocks/ends/gradient.h"
#include "model/blocks/ends/sinusoid.h"
#include "model/blocks/fast_weights/gradient.h"
#include "model/blocks/feed_forward/gradient.h"
#include "model/blocks/mixer_block.h"
#include "model/compute/gradient/phases.h"
#include "model/compute/gradient/team.h"
#include "model/compute/tensor_names.h"

namespace mnemon {
namespace {

// Rows per thread that go through the layers together: enough for products, few enough
// for caches.
constexpr int64_t kGroupRows = 384;
// With this many sequences per thread the division is even enough.
constexpr int kEvenSequences = 8;

// The blocks of a model at their places, and the buffers for gradients that blocks of
// one shape share.
template <class Real>
class BlockMaker {
 public:
  BlockMaker(const ModelDescription& model, const FlatLayout& layout)
      : model_(model), layout_(layout) {}

  std::unique_ptr<MixerBlock<Real>> Make(const Attention& attention,
                                         const BlockPlace& place) {
    auto& rows = attention_[{attention.heads, attention.groups, attention.width}];
    if (rows == nullptr) rows = std::make_shared<AttentionBlockRows<Real>>();
    return std::make_unique<AttentionBlock<Real>>(
        attention, place, model_.whole_sequences, model_.context, KeptOf(model_).ring,
        layout_, rows);
  }
  std::unique_ptr<MixerBlock<Real>> Make(const FastWeights& fast,
                                         const BlockPlace& place) {
    auto& rows = fast_[{fast.heads, fast.heads, fast.width}];
    if (rows == nullptr) rows = std::make_shared<FastWeightGradients<Real>>();
    return std::make_unique<FastWeightBlock<Real>>(fast, place, layout_, rows);
  }

 private:
  using HeadShape = std::array<int64_t, 3>;  // H, G, K

  const ModelDescription& model_;
  const FlatLayout& layout_;
  std::map<HeadShape, std::shared_ptr<AttentionBlockRows<Real>>> attention_;
  std::map<HeadShape, std::shared_ptr<FastWeightGradients<Real>>> fast_;
};

template <class Real>
class TransformerPass final : public GradientPass<Real> {
 public:
  TransformerPass(const ModelDescription& model, const FlatLayout& layout,
                  ThreadPool& pool)
      : model_(model),
        embed_(layout.At(names::Weight(names::kEmbed))),
        positions_(layout.Find(names::Weight(names::kPositions))),
        embed_sums_(model.head.tied ? layout.size() : embed_),
        sums_size_(layout.size() + (model.head.tied ? model.vocab * model.width : 0)),
        phases_(pool),
        loss_(
            model.head.classifier
                ? MakeClassifierLoss<Real>(model.head, model.width, model.vocab, layout)
                : MakeLanguageLoss<Real>(model.head, model.width, model.vocab, layout)),
        scratch_(static_cast<size_t>(pool.count())) {
    BlockMaker<Real> maker(model, layout);
    const std::vector<std::vector<int64_t>> sites = DropoutSites(model);
    for (size_t i = 0; i < model.layers.size(); ++i) {
      for (size_t j = 0; j < model.layers[i].size(); ++j) {
        AddBlock(model.layers[i][j],
                 {.base = BaseOf(i, model.layers[i][j]),
                  .norm = model.layers[i][j].norm,
                  .behind = model.layers[i][j].behind,
                  .after = model.layers[i][j].after,
                  .scale = model.layers[i][j].scale,
                  .width = model.width,
                  .site = sites[i][j]},
                 layout, maker);
      }
    }
    jobs_ = std::vector<GradientJobs<Real>>(stages_.size() + 2);
  }

  absl::StatusOr<PassLoss> Run(const PassInput& input, const Real* weights, Real* sums,
                               PassCarry<Real>& carry) override {
    const PassStep<Real> step =
        MakeStep(model_.dropout, input, carry.position, weights, sums);
    for (const size_t m : mixers_) {
      absl::Status fits = blocks_[m].mixer->Check(step, carry.position);
      if (!fits.ok()) return fits;
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
    for (const size_t m : mixers_) blocks_[m].mixer->FinishSums(weights, sums);
    if (embed_sums_ == embed_) return;
    Real* const gradient = sums + embed_;
    AddScaled<Real>(model_.vocab * model_.width, 1, sums + embed_sums_, gradient,
                    gradient);
  }

  std::vector<Part> UnusedGradients() const override {
    std::vector<Part> unused;
    if (positions_ >= 0) {
      unused.push_back({positions_ + used_positions_ * model_.width,
                        positions_ + model_.context * model_.width});
    }
    for (const size_t m : mixers_) {
      for (const Part& range : blocks_[m].mixer->UnusedGradients()) {
        unused.push_back(range);
      }
    }
    return unused;
  }

 private:
  // A block, one of the two kinds, and the rows that it reads.
  struct BlockAt {
    std::unique_ptr<MixerBlock<Real>> mixer;
    int64_t groups = 0;  // groups of heads of the mixer
    std::unique_ptr<FeedForwardBlock<Real>> feed;
    FeedForwardGradients<Real>* gradients = nullptr;  // of the feed-forward
    Slab<Real> input;                                 // [rows, D]
  };
  // Blocks that go backward before their weights' gradients are computed: at most one
  // of a kind, since blocks of a kind share buffers.
  struct Stage {
    size_t begin = 0, end = 0;
  };

  void AddBlock(const SubLayer& sub, const BlockPlace& place, const FlatLayout& layout,
                BlockMaker<Real>& maker) {
    BlockAt& at = blocks_.emplace_back();
    const size_t index = blocks_.size() - 1;
    if (const auto* feed = std::get_if<FeedForward>(&sub.block)) {
      at.feed = std::make_unique<FeedForwardBlock<Real>>(*feed, place, layout);
      at.gradients = &feed_forward_gradients_[feed->hidden];
      // A block after a mixer joins its stage.
      const bool joins = !stages_.empty() && stages_.back().end == index &&
                         stages_.back().end - stages_.back().begin == 1 &&
                         blocks_[stages_.back().begin].mixer != nullptr;
      if (joins) {
        stages_.back().end = index + 1;
      } else {
        stages_.push_back({index, index + 1});
      }
      return;
    }
    if (const auto* fast = std::get_if<FastWeights>(&sub.block)) {
      at.mixer = maker.Make(*fast, place);
      at.groups = fast->heads;
    } else {
      const auto& attention = std::get<Attention>(sub.block);
      at.mixer = maker.Make(attention, place);
      at.groups = attention.groups;
    }
    at.mixer->PlaceSums(sums_size_);
    sums_size_ += at.mixer->more_sums();
    mixers_.push_back(index);
    stages_.push_back({index, index + 1});
  }

  // The entries of a mixer, starting with number `first`; none if the carry is fresh.
  std::span<const typename PassCarry<Real>::Entry> EntriesOf(
      const PassCarry<Real>& carry, size_t block, size_t first) const {
    if (carry.entries.empty()) return {};
    const auto count = static_cast<size_t>(blocks_[block].mixer->carry_entries());
    return std::span(carry.entries).subspan(first, count);
  }

  void Prepare(const PassStep<Real>& step, const PassInput& input,
               const PassCarry<Real>& carry) {
    const int64_t rows = step.rows(), width = model_.width;
    size_t entries = 0;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      BlockAt& at = blocks_[i];
      if (at.mixer != nullptr) {
        at.mixer->Reserve(step, EntriesOf(carry, i, entries));
        entries += static_cast<size_t>(at.mixer->carry_entries());
      } else {
        at.feed->Reserve(rows, step.dropout.has_value(), *at.gradients);
      }
      at.input.Reserve(rows, width);
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
    if (model_.embedding.positions != Embedding::Positions::kSinusoidal) return;
    const int64_t width = model_.width;
    sinusoids_.Reserve(time, width);
    std::vector<double> row(static_cast<size_t>(width));
    for (int64_t t = 0; t < time; ++t) {
      SinusoidRow(first + t, row);
      std::copy(row.begin(), row.end(), sinusoids_.rows(t).data);
    }
  }

  // Adds jobs for the head, the stages from the last on, and the embedding.
  void PrepareJobs(const PassStep<Real>& step, const PassInput& input,
                   const PassCarry<Real>& carry) {
    for (GradientJobs<Real>& jobs : jobs_) jobs.Clear();
    loss_->AddJobs(step, output_.rows(), jobs_[0]);
    const size_t count = stages_.size();
    for (size_t s = 0; s < count; ++s) {
      GradientJobs<Real>& jobs = jobs_[count - s];
      for (size_t i = stages_[s].end; i-- > stages_[s].begin;) {
        BlockAt& at = blocks_[i];
        if (at.feed != nullptr) {
          at.feed->AddJobs(step, at.input.rows(), After(i), *at.gradients, jobs);
        } else {
          at.mixer->AddJobs(step, at.input.rows(), After(i), jobs);
        }
      }
    }
    EmbeddingGradientCall<Real> call = {.vocab = model_.vocab,
                                        .width = model_.width,
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
    call.out = step.gradients + positions_ + carry.position * model_.width;
    jobs_[count + 1].Add(call);
  }

  Real Scale() const { return static_cast<Real>(model_.embedding.scale); }

  // Gradients of the stream after block i, and before it. The blocks use three slabs in
  // turn, as many as a stage of two blocks needs.
  RowsOfReal<Real> After(size_t i) {
    return stream_[(blocks_.size() - 1 - i) % 3].rows();
  }
  RowsOfReal<Real> Before(size_t i) { return stream_[(blocks_.size() - i) % 3].rows(); }

  RowsOfReal<Real> Output(size_t i) {
    return i + 1 < blocks_.size() ? blocks_[i + 1].input.rows() : output_.rows();
  }

  // Whether threads with fewer sequences would have to wait for others.
  bool Together(int64_t sequences) const {
    const int workers = phases_.workers();
    return sequences % workers != 0 && sequences < int64_t{kEvenSequences} * workers;
  }

  // A group of sequences, and the parts of it that a member of a team computes.
  struct Shares {
    const Team& team;
    Part sequences;
    Part rows;

    Part GroupsOf(const BlockAt& at) const { return Each(at.groups); }
    // Rows of memory to project.
    Part MemoryOf(const BlockAt& at) const {
      return Each(at.mixer->projected_memory());
    }
    Part Each(int64_t count) const {
      return team.ShareOf({sequences.begin * count, sequences.end * count});
    }
  };

  // Calls each(shares), which consists of calls of team.Do, for groups of the team's
  // sequences.
  template <class Each>
  void ForGroups(const PassStep<Real>& step, const Team& team, const Each& each) const {
    const Part all = team.SequencesOf(step.sequences);
    const int64_t most = std::max<int64_t>(1, team.size() * kGroupRows / step.time);
    team.Run([&] {
      for (int64_t b = all.begin; b < all.end; b += most) {
        const Part some = {b, std::min(all.end, b + most)};
        each(Shares{
            .team = team, .sequences = some, .rows = team.ShareOf(step.RowsOf(some))});
      }
    });
  }

  void Work(const PassStep<Real>& step, const PassInput& input,
            const PassCarry<Real>& carry, int worker) {
    PassScratch<Real>& scratch = scratch_[worker];
    const Team team(phases_, worker, Together(step.sequences));
    phases_.Do(worker, [&] { Pack(step, worker); });
    ForGroups(step, team,
              [&](const Shares& own) { Forward(step, input, carry, own, scratch); });
    if (step.gradients == nullptr) return;
    const size_t count = stages_.size();
    const auto jobs = [&](size_t stage) {
      phases_.Do(worker, [&] { jobs_[stage].Work(scratch.gradient); });
    };
    ForGroups(step, team, [&](const Shares& own) {
      team.Do([&] {
        loss_->Backward(step, own.rows, output_.rows(), After(blocks_.size() - 1),
                        scratch);
      });
    });
    jobs(0);
    for (size_t s = count; s-- > 0;) {
      ForGroups(step, team, [&](const Shares& own) {
        StageBackward(step, stages_[s], own, scratch);
      });
      jobs(count - s);
    }
    jobs(count + 1);
  }

  void Pack(const PassStep<Real>& step, int worker) {
    for (BlockAt& at : blocks_) {
      if (at.mixer != nullptr) {
        at.mixer->Pack(step, worker, phases_.workers());
      } else {
        at.feed->Pack(step, worker, phases_.workers());
      }
    }
    loss_->Pack(step, worker, phases_.workers());
    if (worker > 0 || step.gradients == nullptr || positions_ < 0) return;
    // Clears the rows of earlier batches.
    std::fill_n(step.gradients + positions_, used_positions_ * model_.width, Real{0});
  }

  void Forward(const PassStep<Real>& step, const PassInput& input,
               const PassCarry<Real>& carry, const Shares& own,
               PassScratch<Real>& scratch) {
    // Work that needs no other member: from block i to the next mixer, or to the loss.
    const auto go_on = [&](size_t i) {
      for (; i < blocks_.size() && blocks_[i].feed != nullptr; ++i) {
        blocks_[i].feed->Forward(step, Team::Alone(), own.rows, blocks_[i].input.rows(),
                                 Output(i), scratch);
      }
      if (i < blocks_.size()) {
        BlockAt& at = blocks_[i];
        at.mixer->Project(step, own.rows, own.MemoryOf(at), at.input.rows());
      } else {
        loss_->Forward(step, own.rows, output_.rows(), input.targets, scratch);
      }
    };
    own.team.Do([&] {
      Embed(step, input, carry.position, own.rows, scratch);
      go_on(0);
    });
    for (const size_t m : mixers_) {
      BlockAt& at = blocks_[m];
      own.team.Do([&] { at.mixer->Mix(step, own.GroupsOf(at), scratch); });
      own.team.Do([&] {
        at.mixer->Finish(step, own.rows, at.input.rows(), Output(m), scratch);
        go_on(m + 1);
      });
    }
  }

  void StageBackward(const PassStep<Real>& step, const Stage& stage, const Shares& own,
                     PassScratch<Real>& scratch) {
    const size_t last = stage.end - 1;
    BlockAt& first = blocks_[stage.begin];
    const auto drop = [&] {
      if (stage.begin == 0) DropEmbedding(step, own.rows, Before(0), scratch);
    };
    own.team.Do([&] {
      if (BlockAt& at = blocks_[last]; at.feed != nullptr) {
        at.feed->Backward(step, Team::Alone(), own.rows, at.input.rows(), After(last),
                          Before(last), *at.gradients, scratch);
      }
      if (first.mixer != nullptr) {
        first.mixer->FinishBackward(step, own.rows, After(stage.begin), scratch);
      } else {
        drop();
      }
    });
    if (first.mixer == nullptr) return;
    own.team.Do([&] { first.mixer->MixBackward(step, own.GroupsOf(first), scratch); });
    own.team.Do([&] {
      first.mixer->ProjectBackward(step, own.rows, first.input.rows(),
                                   After(stage.begin), Before(stage.begin));
      drop();
    });
  }

  void Embed(const PassStep<Real>& step, const PassInput& input, int64_t first,
             Part rows, PassScratch<Real>& scratch) {
    const int64_t width = model_.width;
    const bool sinusoids =
        model_.embedding.positions == Embedding::Positions::kSinusoidal;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const int64_t t = r % step.time;
      const Real* added = nullptr;
      if (sinusoids) {
        added = sinusoids_.rows(t).data;
      } else if (positions_ >= 0) {
        added = step.weights + positions_ + (first + t) * width;
      }
      AddScaled(width, Scale(), step.weights + embed_ + input.tokens[r] * width, added,
                blocks_[0].input.rows(r).data);
    }
    DropEmbedding(step, rows, blocks_[0].input.rows(), scratch);
  }

  void DropEmbedding(const PassStep<Real>& step, Part rows, RowsOfReal<Real> x,
                     PassScratch<Real>& scratch) const {
    if (!model_.embedding.drops || !step.dropout) return;
    step.Drop({.kind = DropoutKind::kEmbedding}, rows, model_.width, x, x, scratch);
  }

  // The carry after the batch.
  void Continue(const PassStep<Real>& step, const PassInput& input,
                PassCarry<Real>& carry) {
    if (!input.continues || model_.whole_sequences) {
      carry = {};
      return;
    }
    PassCarry<Real> next;
    next.position = carry.position + step.time;
    for (const size_t m : mixers_) {
      for (auto& entry : blocks_[m].mixer->Continue(step, blocks_[m].input.rows())) {
        next.entries.push_back(std::move(entry));
      }
    }
    carry = std::move(next);
  }

  const ModelDescription model_;
  const int64_t embed_, positions_;  // in the layout; positions -1: not learned
  // Offset of the embedding's sums: in its own place, or after the layout if the sums
  // of a tied head are there.
  const int64_t embed_sums_;
  int64_t sums_size_;  // including those of the blocks
  Phases phases_;
  std::vector<BlockAt> blocks_;
  std::vector<size_t> mixers_;  // indices of blocks
  std::vector<Stage> stages_;
  const std::unique_ptr<LossBlock<Real>> loss_;
  Slab<Real> output_;                  // output of the last block
  Slab<Real> sinusoids_;               // [T, D]
  int64_t used_positions_ = 0;         // rows used by any batch so far
  std::vector<int32_t> position_ids_;  // [rows]: t
  Slab<Real> stream_[3];
  std::map<int64_t, FeedForwardGradients<Real>> feed_forward_gradients_;  // by F
  std::vector<GradientJobs<Real>> jobs_;
  std::vector<PassScratch<Real>> scratch_;  // one per worker
};

}  // namespace

template <class Real>
std::unique_ptr<GradientPass<Real>> MakeTransformerPass(const ModelDescription& model,
                                                        const FlatLayout& layout,
                                                        ThreadPool& pool) {
  return std::make_unique<TransformerPass<Real>>(model, layout, pool);
}

template std::unique_ptr<GradientPass<float>> MakeTransformerPass(
    const ModelDescription&, const FlatLayout&, ThreadPool&);
template std::unique_ptr<GradientPass<double>> MakeTransformerPass(
    const ModelDescription&, const FlatLayout&, ThreadPool&);

}  // namespace mnemon
