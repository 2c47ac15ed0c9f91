// SPDX-License-Identifier: MIT
#include "model/blocks/ends/gradient.h"

#include "model/compute/gradient/linear.h"
#include "model/compute/gradient/slab.h"
#include "model/compute/tensor_names.h"

namespace mnemon {
namespace {

template <class Real>
LinearMap<Real> MakeHead(const Head& head, int64_t width, int64_t vocab,
                         const FlatLayout& layout) {
  if (!head.tied) {
    return LinearMap<Real>(layout, names::kHead, vocab, width);
  }
  return LinearMap<Real>::Tied(layout.At(names::Weight(names::kEmbed)), vocab, width);
}

constexpr Hidden kCap = {.act = Activation::kTanh, .gated = false};

template <class Real>
class LanguageLoss final : public LossBlock<Real> {
 public:
  LanguageLoss(const Head& head, int64_t width, int64_t vocab, const FlatLayout& layout)
      : width_(width),
        vocab_(vocab),
        scale_(static_cast<Real>(head.scale / head.cap.value_or(1))),
        cap_(static_cast<Real>(head.cap.value_or(0))),
        norm_(layout, names::kNorm, width_, head.norm),
        head_(MakeHead<Real>(head, width, vocab, layout)) {
    head_.Reserve();
  }

  void Reserve(const PassStep<Real>& step) override {
    normed_.Reserve(step.rows(), width_);
    dnormed_.Reserve(step.rows(), width_);
    moments_.resize(static_cast<size_t>(2 * step.rows()));
    logits_.Reserve(step.rows(), vocab_);
    if (cap_ > 0) uncapped_.Reserve(step.rows(), vocab_);
    this->ReserveLosses(step.rows());
  }

  void Pack(const PassStep<Real>& step, int worker, int workers) override {
    head_.Pack(step.weights, step.gradients != nullptr, worker, workers);
  }

  void Forward(const PassStep<Real>& step, Part rows, RowsOfReal<const Real> x,
               const int32_t* targets, PassScratch<Real>&) override {
    const int64_t first = rows.begin, count = rows.size();
    NormForward(Norm(step, rows, x), normed_.rows(first));
    head_.Forward(step.weights, {.rows = count,
                                 .in = normed_.rows(first),
                                 .from = {},
                                 .out = logits_.rows(first)});
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      Real* const logits = logits_.rows(r).data;
      if (scale_ != 1) AddScaled<Real>(vocab_, scale_, logits, nullptr, logits);
      if (cap_ > 0) {
        Real* const uncapped = uncapped_.rows(r).data;
        std::copy_n(logits, vocab_, uncapped);
        HiddenForward<Real>(kCap, vocab_, uncapped, nullptr, logits);
        AddScaled<Real>(vocab_, cap_, logits, nullptr, logits);
      }
      this->ComputeLoss(r, targets[step.Token(r)], vocab_, logits_.rows(r).data);
    }
  }

  void Backward(const PassStep<Real>& step, Part rows, RowsOfReal<const Real> x,
                RowsOfReal<Real> dx, PassScratch<Real>&) override {
    const int64_t first = rows.begin;
    for (int64_t r = rows.begin; (scale_ != 1 || cap_ > 0) && r < rows.end; ++r) {
      Real* const dlogits = logits_.rows(r).data;
      const Real* dproduct = dlogits;
      if (cap_ > 0) {
        Real* const uncapped = uncapped_.rows(r).data;
        HiddenBackward<Real>(kCap, vocab_, dlogits, uncapped, nullptr);
        dproduct = uncapped;
      }
      const Real scale = cap_ > 0 ? scale_ * cap_ : scale_;
      AddScaled<Real>(vocab_, scale, dproduct, nullptr, dlogits);
    }
    head_.Backward({.rows = rows.size(),
                    .in = logits_.rows(first),
                    .from = {},
                    .out = dnormed_.rows(first)});
    NormBackward<Real>(Norm(step, rows, x), dnormed_.rows(first), {}, dx.from(first));
  }

  void AddJobs(const PassStep<Real>& step, RowsOfReal<const Real> x,
               GradientJobs<Real>& jobs) override {
    head_.AddJobs({{step.layout(), logits_.rows().data, logits_.rows().stride,
                    normed_.rows().data, normed_.rows().stride}},
                  step.shards, step.gradients, jobs);
    norm_.AddJobs({{.layout = step.layout(),
                    .dz = dnormed_.rows(),
                    .x = x,
                    .moments = moments_.data()}},
                  step.shards, step.gradients, jobs);
  }

 private:
  NormPass<Real> Norm(const PassStep<Real>& step, Part rows, RowsOfReal<const Real> x) {
    return norm_.Pass(step.weights, rows.size(), x.from(rows.begin),
                      moments_.data() + 2 * rows.begin);
  }

  const int64_t width_, vocab_;
  const Real scale_;  // divided by the cap, if there is one
  const Real cap_;    // 0: none
  NormMap<Real> norm_;
  LinearMap<Real> head_;
  Slab<Real> normed_, dnormed_;  // [rows, D]
  AlignedVector<Real> moments_;
  Slab<Real> logits_, uncapped_;  // [rows, V]; the latter with a cap
};

}  // namespace

template <class Real>
PassLoss LossBlock<Real>::Loss(const PassStep<Real>& step) const {
  const int64_t count = step.shards.own.size();
  std::vector<PassLoss> sums(static_cast<size_t>(SlotsOf(count)));
  SumShards(
      0, count, 0,
      [&](int64_t shard, int64_t to) {
        sums[to] = {};
        const RowPieces rows = RowsOf(step.layout(), step.shards.SequencesOf(shard));
        for (int64_t i = 0; i < rows.count; ++i) sums[to].Add(losses_[rows.at(i)]);
      },
      [&](int64_t to, int64_t from) { sums[to].Add(sums[from]); });
  return sums[0];
}

template <class Real>
std::unique_ptr<LossBlock<Real>> MakeLanguageLoss(const Head& head, int64_t width,
                                                  int64_t vocab,
                                                  const FlatLayout& layout) {
  return std::make_unique<LanguageLoss<Real>>(head, width, vocab, layout);
}

template class LossBlock<float>;
template class LossBlock<double>;
template std::unique_ptr<LossBlock<float>> MakeLanguageLoss(const Head&, int64_t,
                                                            int64_t, const FlatLayout&);
template std::unique_ptr<LossBlock<double>> MakeLanguageLoss(const Head&, int64_t,
                                                             int64_t,
                                                             const FlatLayout&);

}  // namespace mnemon
