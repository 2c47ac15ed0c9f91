// SPDX-License-Identifier: MIT
#include "model/gradient/feedback_pass.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/float_mode.h"
#include "base/strings.h"
#include "model/blocks/attention/memory_gradient.h"
#include "model/blocks/ends/gradient.h"
#include "model/blocks/feed_forward/gradient.h"
#include "model/blocks/feedback_memory/gradient.h"
#include "model/blocks/feedback_memory/mixture_gradient.h"
#include "model/compute/gradient/phases.h"
#include "model/compute/tensor_names.h"

namespace mnemon {
namespace {

template <class Real>
class FeedbackPass final : public GradientPass<Real> {
 public:
  FeedbackPass(const ModelDescription& model, const FlatLayout& layout,
               ThreadPool& pool)
      : model_(model),
        reader_(MemoryReader(model)),
        width_(model.width),
        kept_(reader_.heads * reader_.width),
        embed_(layout.At(names::Weight(names::kEmbed))),
        mix_(layout.At(names::kMemoryMix)),
        embed_sums_(model.head.tied ? layout.size() : embed_),
        sums_size_(layout.size() + (model.head.tied ? model.vocab * model.width : 0)),
        phases_(pool),
        loss_(MakeLanguageLoss<Real>(model.head, model.width, model.vocab, layout)),
        scratch_(static_cast<size_t>(pool.count())) {
    int64_t readings = 0;
    for (const std::vector<SubLayer>& layer : model.layers) {
      for (const SubLayer& sub : layer) {
        readings += std::holds_alternative<Attention>(sub.block);
      }
    }
    if (model.memory->shared) AddMemory(layout, "memory");
    const std::vector<std::vector<int64_t>> sites = DropoutSites(model);
    int64_t reading = 0;
    for (size_t i = 0; i < model.layers.size(); ++i) {
      std::vector<Block>& layer = layers_.emplace_back();
      for (size_t j = 0; j < model.layers[i].size(); ++j) {
        const SubLayer& sub = model.layers[i][j];
        const BlockPlace place = {.base = BaseOf(i, sub),
                                  .norm = sub.norm,
                                  .width = width_,
                                  .site = sites[i][j]};
        Block& block = layer.emplace_back();
        if (const auto* feed = std::get_if<FeedForward>(&sub.block)) {
          block.feed = std::make_unique<FeedForwardBlock<Real>>(*feed, place, layout);
          continue;
        }
        block.attention = std::make_unique<FeedbackAttention<Real>>(
            std::get<Attention>(sub.block), place, reading++, readings, layout);
        if (!model.memory->shared) AddMemory(layout, place.base);
        block.memory = memories_.size() - 1;
      }
    }
    matrix_bytes_ = MatrixBytes(model);
    streams_.resize(layers_.size() + 1);
    dstreams_.resize(layers_.size() + 1);
  }

  absl::StatusOr<PassLoss> Run(const PassInput& input, const Real* weights, Real* sums,
                               PassCarry<Real>& carry) override {
    PassStep<Real> step =
        MakeStep(model_.dropout, input, carry.position, weights, sums);
    step.interleaved = true;
    step.memory = carry.entries.empty() ? 0 : carry.entries[0].count;
    if (!reader_.window && step.memory + step.time > model_.context) {
      return MakeError(
          absl::StatusCode::kFailedPrecondition,
          StrCat(step.memory, " + ", step.time,
                 " tokens are beyond the model's limit of ", model_.context),
          {.reason = "CONTEXT_LIMIT"});
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

  // Converts sums for the mixing weights into the gradient of w, whose softmax they
  // are.
  void Finish(const Real* weights, Real* sums) const override {
    const IeeeFloatMode mode;
    MixtureBackward(Mixture(weights), sums + mix_);
    if (embed_sums_ == embed_) return;
    Real* const gradient = sums + embed_;
    AddScaled<Real>(model_.vocab * width_, 1, sums + embed_sums_, gradient, gradient);
  }

  std::vector<Part> UnusedGradients() const override {
    std::vector<Part> unused;
    for (const std::vector<Block>& layer : layers_) {
      for (const Block& block : layer) {
        if (block.attention == nullptr) continue;
        for (const Part& range : block.attention->UnusedGradients()) {
          unused.push_back(range);
        }
      }
    }
    return unused;
  }

 private:
  // One of the two is set.
  struct Block {
    std::unique_ptr<FeedbackAttention<Real>> attention;
    size_t memory = 0;  // index of the memory that the attention reads
    std::unique_ptr<FeedForwardBlock<Real>> feed;
    FeedForwardGradients<Real> gradients;  // of the feed-forward
    // x between this block and the next of its layer [rows, D]; the last one is
    // followed by the stream.
    Slab<Real> after, dafter;
  };
  // Adds the maps base.key and base.value.
  void AddMemory(const FlatLayout& layout, const std::string& base) {
    memories_.emplace_back(layout, base, width_, reader_.heads, reader_.width);
  }

  // Bytes of the matrices that a token goes through.
  int64_t MatrixBytes(const ModelDescription& model) const {
    int64_t rows = static_cast<int64_t>(memories_.size()) * 2 * kept_;
    for (const std::vector<SubLayer>& layer : model.layers) {
      for (const SubLayer& sub : layer) {
        const auto* feed = std::get_if<FeedForward>(&sub.block);
        rows += feed == nullptr ? 2 * kept_ : (feed->gated ? 3 : 2) * feed->hidden;
      }
    }
    return rows * width_ * static_cast<int64_t>(sizeof(Real));
  }

  // Where block j of layer i reads and writes x, and the gradients there.
  RowsOfReal<Real> Input(size_t i, size_t j) {
    return j == 0 ? streams_[i].rows() : layers_[i][j - 1].after.rows();
  }
  RowsOfReal<Real> Output(size_t i, size_t j) {
    return j + 1 == layers_[i].size() ? streams_[i + 1].rows()
                                      : layers_[i][j].after.rows();
  }
  RowsOfReal<Real> DInput(size_t i, size_t j) {
    return j == 0 ? dstreams_[i].rows() : layers_[i][j - 1].dafter.rows();
  }
  RowsOfReal<Real> DOutput(size_t i, size_t j) {
    return j + 1 == layers_[i].size() ? dstreams_[i + 1].rows()
                                      : layers_[i][j].dafter.rows();
  }

  // Calls each(attention, its memory) for all blocks that read a memory.
  template <class Each>
  void ForReaders(const Each& each) {
    for (std::vector<Block>& layer : layers_) {
      for (Block& block : layer) {
        if (block.attention != nullptr) {
          each(*block.attention, memories_[block.memory].rows());
        }
      }
    }
  }

  // softmax(w).
  std::vector<Real> Mixture(const Real* weights) const {
    return MemoryMixture(weights + mix_, streams_.size());
  }

  HeadShare HeadsOf(const Team& team, Part sequences) const {
    return {sequences, team.ShareOf({0, reader_.heads * sequences.size()})};
  }

  FeedbackToken TokenAt(const PassStep<Real>& step, const HeadShare& own,
                        int64_t t) const {
    const int64_t all = step.memory + t;
    if (!reader_.window) return {.own = own, .t = t, .positions = all};
    const int64_t limit = *reader_.window;
    const int64_t of_block = step.memory + t / kFeedbackBlock * kFeedbackBlock;
    const int64_t base =
        std::max<int64_t>(0, of_block - limit) / kColumnPanel * kColumnPanel;
    return {.own = own,
            .t = t,
            .base = base,
            .first = std::max<int64_t>(0, all - limit) - base,
            .positions = all - base};
  }

  void Prepare(const PassStep<Real>& step, const PassInput& input,
               const PassCarry<Real>& carry) {
    const int64_t rows = step.rows();
    const int64_t positions = step.memory + step.time - 1;
    // A base is less than a panel before the first position that a block's first token
    // sees.
    const int64_t most =
        reader_.window
            ? std::min(positions, *reader_.window + kColumnPanel + kFeedbackBlock)
            : positions;
    const bool backward = step.gradients != nullptr;
    for (std::vector<Block>& layer : layers_) {
      for (Block& block : layer) {
        if (block.attention != nullptr) {
          block.attention->Reserve(step, most);
        } else {
          block.feed->Reserve(rows, step.dropout.has_value(), block.gradients);
        }
        if (&block == &layer.back()) continue;
        block.after.Reserve(rows, width_);
        if (backward) block.dafter.Reserve(rows, width_);
      }
    }
    for (Slab<Real>& stream : streams_) stream.Reserve(rows, width_);
    mixed_.Reserve(rows, width_);
    if (backward) {
      for (Slab<Real>& stream : dstreams_) stream.Reserve(rows, width_);
      dmixed_.Reserve(step.sequences, width_);
      dots_.Reserve(rows, static_cast<int64_t>(streams_.size()));
    }
    for (auto& memory : memories_) {
      memory.Reserve(step, std::max<int64_t>(1, positions));
    }
    loss_->Reserve(step);
    for (int w = 0; w < phases_.workers(); ++w) {
      const Team team(phases_, w, Together(step.sequences));
      const HeadShare own = HeadsOf(team, team.SequencesOf(step.sequences));
      ForReaders([&](const FeedbackAttention<Real>& attention, auto&) {
        attention.Reserve(step, most, own.pairs.size(), scratch_[w]);
      });
    }
    // Rows in the order of the pass.
    tokens_.resize(static_cast<size_t>(rows));
    for (int64_t r = 0; r < rows; ++r) {
      tokens_[r] = input.tokens[step.Token(r)];
    }
    mixture_ = Mixture(step.weights);
    if (backward) PrepareJobs(step, carry);
  }

  void PrepareJobs(const PassStep<Real>& step, const PassCarry<Real>& carry) {
    jobs_.Clear();
    loss_->AddJobs(step, streams_.back().rows(), jobs_);
    for (size_t i = 0; i < layers_.size(); ++i) {
      for (size_t j = layers_[i].size(); j-- > 0;) {
        Block& block = layers_[i][j];
        if (block.feed != nullptr) {
          block.feed->AddJobs(step, Input(i, j), DOutput(i, j), block.gradients, jobs_);
        } else {
          block.attention->AddJobs(step, Input(i, j), DOutput(i, j), jobs_);
        }
      }
    }
    // The last memory is for the next batch, which projects it itself.
    const RowLayout projected = {
        .sequences = step.sequences, .each = step.time - 1, .interleaved = true};
    const RowsOfReal<const Real> carried =
        step.memory > 0 ? RowsOfReal<const Real>{carry.entries[0].values.data(), width_}
                        : RowsOfReal<const Real>{};
    for (auto& memory : memories_) {
      memory.AddJobs(step, projected, mixed_.rows(), carried, jobs_);
    }
    jobs_.Add(VectorGradientCall<Real>{
        .width = static_cast<int64_t>(streams_.size()),
        .parts = {{.layout = projected, .dz = dots_.rows(), .x = {}}},
        .shards = step.shards,
        .bias = step.gradients + mix_});
    jobs_.Add(EmbeddingGradientCall<Real>{.vocab = model_.vocab,
                                          .width = width_,
                                          .layout = step.layout(),
                                          .ids = tokens_.data(),
                                          .dx = dstreams_[0].rows(),
                                          .shards = step.shards,
                                          .out = step.gradients + embed_sums_});
  }

  // With few sequences, time goes into reading the matrices, which a team reads once
  // for all of them; with many, into products, for which no thread waits for others.
  // The threshold was measured with two threads (bench/README.md); with more, each must
  // have as much work between barriers.
  bool Together(int64_t sequences) const {
    constexpr int64_t kMiB = 1 << 20, kMost = 8;
    const int64_t workers = std::min<int64_t>(phases_.workers(), width_ / kColumnPanel);
    if (2 * sequences <= workers) return matrix_bytes_ >= kMiB;
    const int64_t few =
        std::min(kMost, (matrix_bytes_ / phases_.workers() + kMiB) / (2 * kMiB));
    return workers > 1 && sequences <= few * workers;
  }

  void Work(const PassStep<Real>& step, const PassInput& input,
            const PassCarry<Real>& carry, int worker) {
    FeedbackScratch<Real>& scratch = scratch_[worker];
    const Team team(phases_, worker, Together(step.sequences));
    const HeadShare own = HeadsOf(team, team.SequencesOf(step.sequences));
    phases_.Do(worker, [&] { Pack(step, worker); });
    team.Run([&] { Forward(step, carry, team, own, scratch); });
    phases_.Do(worker, [&] { ComputeLoss(step, input, worker); });
    if (step.gradients == nullptr) return;
    team.Run([&] { Backward(step, team, own, scratch); });
    phases_.Do(worker, [&] { jobs_.Work(scratch.pass.gradient); });
  }

  void Pack(const PassStep<Real>& step, int worker) {
    const int workers = phases_.workers();
    for (std::vector<Block>& layer : layers_) {
      for (Block& block : layer) {
        if (block.attention != nullptr) {
          block.attention->Pack(step, worker, workers);
        } else {
          block.feed->Pack(step, worker, workers);
        }
      }
    }
    for (auto& memory : memories_) memory.Pack(step, worker, workers);
    loss_->Pack(step, worker, workers);
  }

  // After the loop, when many rows share each stretch of the matrix.
  void ComputeLoss(const PassStep<Real>& step, const PassInput& input, int worker) {
    constexpr int64_t kRows = 64;
    PassScratch<Real>& scratch = scratch_[worker].pass;
    const Part own = PartOf(step.rows(), worker, phases_.workers());
    const RowsOfReal<Real> x = streams_.back().rows();
    for (int64_t begin = own.begin; begin < own.end; begin += kRows) {
      const Part rows = {begin, std::min(own.end, begin + kRows)};
      loss_->Forward(step, rows, x, input.targets, scratch);
      if (step.gradients == nullptr) continue;
      loss_->Backward(step, rows, x, dstreams_.back().rows(), scratch);
    }
  }

  void Forward(const PassStep<Real>& step, const PassCarry<Real>& carry,
               const Team& team, const HeadShare& heads,
               FeedbackScratch<Real>& scratch) {
    const Part sequences = heads.sequences;
    if (step.memory > 0) {
      const RowsOfReal<const Real> carried = {carry.entries[0].values.data(), width_};
      const Part own =
          team.ShareOf({sequences.begin * step.memory, sequences.end * step.memory});
      team.Do([&] {
        for (auto& memory : memories_) memory.Recall(step, carried, own);
      });
    }
    for (int64_t t = 0; t < step.time; ++t) {
      const FeedbackToken token = TokenAt(step, heads, t);
      const Part rows = step.RowsOfToken(sequences, t), own = team.ShareOf(rows);
      team.Do([&] {
        for (int64_t r = own.begin; r < own.end; ++r) {
          std::copy_n(step.weights + embed_ + tokens_[r] * width_, width_,
                      streams_[0].rows(r).data);
        }
      });
      for (size_t i = 0; i < layers_.size(); ++i) {
        for (size_t j = 0; j < layers_[i].size(); ++j) {
          Block& block = layers_[i][j];
          if (block.attention != nullptr) {
            block.attention->Forward(step, team, token, Input(i, j),
                                     memories_[block.memory].rows(), Output(i, j),
                                     scratch);
          } else {
            block.feed->Forward(step, team, rows, Input(i, j), Output(i, j),
                                scratch.pass);
          }
        }
      }
      team.Do([&] { Mix(own); });
      if (t + 1 < step.time) Append(step, team, token, rows);
    }
  }

  // m = sum of softmax(w)_l x^l.
  void Mix(Part rows) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      Real* const mixed = mixed_.rows(r).data;
      for (size_t l = 0; l < streams_.size(); ++l) {
        AddScaled(width_, mixture_[l], streams_[l].rows(r).data,
                  l == 0 ? nullptr : mixed, mixed);
      }
    }
  }

  // Projects the memory that a token made.
  void Append(const PassStep<Real>& step, const Team& team, const FeedbackToken& token,
              Part rows) {
    team.Do([&] {
      for (auto& memory : memories_) {
        memory.Project(step, mixed_.rows(), rows, team.ColumnsOf(kept_));
      }
    });
    team.Do([&] {
      for (auto& memory : memories_) {
        memory.Put(step, token.own, token.t, token.base + token.positions);
      }
    });
  }

  void Backward(const PassStep<Real>& step, const Team& team, const HeadShare& own,
                FeedbackScratch<Real>& scratch) {
    team.Do([&] {
      for (auto& memory : memories_) memory.BeginBackward(own);
      ForReaders([&](auto& attention, auto&) { attention.BeginBackward(own); });
    });
    int64_t end = step.time;
    while (end > 0) {
      const int64_t begin = (end - 1) / kFeedbackBlock * kFeedbackBlock;
      for (int64_t t = end - 1; t >= begin; --t) {
        TokenBackward(step, team, TokenAt(step, own, t), step.memory + begin, scratch);
      }
      team.Do([&] { EndBlock(step, own, {begin, end}, scratch); });
      end = begin;
    }
    team.Do([&] {
      ForReaders([&](auto& attention, auto&) { attention.EndBackward(step, own); });
      for (auto& memory : memories_) memory.TakeCarried(step, own);
    });
  }

  // Called after the tokens of a block.
  void EndBlock(const PassStep<Real>& step, const HeadShare& own, Part tokens,
                FeedbackScratch<Real>& scratch) {
    // Tokens without a memory had no attention.
    const int64_t first =
        step.memory == 0 ? std::max<int64_t>(1, tokens.begin) : tokens.begin;
    if (first >= tokens.end) return;
    const FeedbackToken token = TokenAt(step, own, first);
    ForReaders([&](auto& attention, auto& memory) {
      attention.EndBlock(token, tokens.end - first,
                         step.memory + tokens.begin - token.base, memory, scratch);
    });
  }

  // `block`: positions of the memory before the token's block.
  void TokenBackward(const PassStep<Real>& step, const Team& team,
                     const FeedbackToken& token, int64_t block,
                     FeedbackScratch<Real>& scratch) {
    const Part rows = step.RowsOfToken(token.own.sequences, token.t);
    // The last memory has no reader.
    const bool read = token.t + 1 < step.time;
    if (read) MemoryBackward(step, team, token, rows);
    for (size_t i = layers_.size(); i-- > 0;) {
      if (read) AddMixed(step, team, rows, i + 1);
      for (size_t j = layers_[i].size(); j-- > 0;) {
        Block& at = layers_[i][j];
        if (at.feed != nullptr) {
          at.feed->Backward(step, team, rows, Input(i, j), DOutput(i, j), DInput(i, j),
                            at.gradients, scratch.pass);
        } else {
          at.attention->Backward(step, team, token, block - token.base, Input(i, j),
                                 memories_[at.memory].rows(), DOutput(i, j),
                                 DInput(i, j), scratch);
        }
      }
    }
    if (read) AddMixed(step, team, rows, 0);
  }

  // dm of a token, once all its readers went backward.
  void MemoryBackward(const PassStep<Real>& step, const Team& team,
                      const FeedbackToken& token, Part rows) {
    team.Do([&] {
      for (auto& memory : memories_) {
        memory.Take(step, token.own, token.t, token.base + token.positions);
      }
    });
    team.Do([&] {
      const RowsOfReal<Real> dmixed = dmixed_.rows(token.own.sequences.begin);
      RowsOfReal<const Real> from;
      for (auto& memory : memories_) {
        memory.Backward(rows, from, dmixed, team.ColumnsOf(width_));
        from = dmixed;
      }
    });
    team.Do([&] {
      const Part own = team.ShareOf(rows);
      for (int64_t r = own.begin; r < own.end; ++r) {
        const Real* const of = dmixed_.rows(step.SequenceOf(r)).data;
        for (size_t l = 0; l < streams_.size(); ++l) {
          dots_.rows(r).data[l] =
              DotProduct<Real>(width_, of, streams_[l].rows(r).data);
        }
      }
    });
  }

  // Adds the gradient of x^l through the memory.
  void AddMixed(const PassStep<Real>& step, const Team& team, Part rows, size_t l) {
    team.Do([&] {
      const Part own = team.ShareOf(rows);
      for (int64_t r = own.begin; r < own.end; ++r) {
        Real* const dx = dstreams_[l].rows(r).data;
        AddScaled(width_, mixture_[l], dmixed_.rows(step.SequenceOf(r)).data, dx, dx);
      }
    });
  }

  void Continue(const PassStep<Real>& step, const PassInput& input,
                PassCarry<Real>& carry) {
    if (!input.continues) {
      carry = {};
      return;
    }
    const int64_t all = step.memory + step.time;
    const int64_t kept = reader_.window ? std::min(all, *reader_.window) : all;
    typename PassCarry<Real>::Entry entry = {.count = kept, .values = {}};
    entry.values.resize(static_cast<size_t>(step.sequences * kept * width_));
    Real* to = entry.values.data();
    for (int64_t b = 0; b < step.sequences; ++b) {
      for (int64_t j = all - kept; j < all; ++j, to += width_) {
        const Real* const from =
            j < step.memory
                ? carry.entries[0].values.data() + (b * step.memory + j) * width_
                : mixed_.rows((j - step.memory) * step.sequences + b).data;
        std::copy_n(from, width_, to);
      }
    }
    PassCarry<Real> next = {.position = carry.position + step.time, .entries = {}};
    next.entries.push_back(std::move(entry));
    carry = std::move(next);
  }

  const ModelDescription model_;
  const Attention reader_;      // settings common to all readers
  const int64_t width_, kept_;  // D; H K of keys and values
  const int64_t embed_, mix_;   // in the layout
  const int64_t embed_sums_;    // see TransformerPass
  const int64_t sums_size_;
  Phases phases_;
  int64_t matrix_bytes_ = 0;  // bytes that each token reads
  std::vector<std::vector<Block>> layers_;
  std::vector<MemoryProjection<Real>> memories_;  // one per layer, or one for all
  const std::unique_ptr<LossBlock<Real>> loss_;
  std::vector<Slab<Real>> streams_, dstreams_;  // x^0 .. x^L [rows, D]
  std::vector<Real> mixture_;                   // softmax(w) [L + 1]
  Slab<Real> mixed_;                            // m [rows, D]
  Slab<Real> dmixed_;                           // of one token [B, D]
  Slab<Real> dots_;                             // dm . x^l [rows, L + 1]
  std::vector<int32_t> tokens_;                 // [rows]
  GradientJobs<Real> jobs_;
  std::vector<FeedbackScratch<Real>> scratch_;  // one per worker
};

}  // namespace

template <class Real>
std::unique_ptr<GradientPass<Real>> MakeFeedbackPass(const ModelDescription& model,
                                                     const FlatLayout& layout,
                                                     ThreadPool& pool) {
  return std::make_unique<FeedbackPass<Real>>(model, layout, pool);
}

template std::unique_ptr<GradientPass<float>> MakeFeedbackPass(const ModelDescription&,
                                                               const FlatLayout&,
                                                               ThreadPool&);
template std::unique_ptr<GradientPass<double>> MakeFeedbackPass(const ModelDescription&,
                                                                const FlatLayout&,
                                                                ThreadPool&);

}  // namespace mnemon
