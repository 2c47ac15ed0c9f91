// SPDX-License-Identifier: MIT
#include <optional>

#include "model/blocks/ends/gradient.h"
#include "model/compute/gradient/linear.h"
#include "model/compute/gradient/slab.h"
#include "model/compute/tensor_names.h"

namespace mnemon {
namespace {

template <class Real>
class ClassifierLoss final : public LossBlock<Real> {
 public:
  ClassifierLoss(const Head& head, int64_t width, int64_t vocab,
                 const FlatLayout& layout)
      : width_(width),
        vocab_(vocab),
        hidden_{head.classifier->activation, /*gated=*/false},
        in_(layout, names::kHeadIn, width_, width_),
        norm_(layout, names::kNorm, width_, head.norm),
        head_(head.tied ? LinearMap<Real>::Tied(layout.At(names::Weight(names::kEmbed)),
                                                vocab_, width_)
                        : LinearMap<Real>(layout, names::kHead, vocab_, width_)) {
    in_.Reserve();
    head_.Reserve();
    if (head.classifier->norm_logits) {
      logits_norm_.emplace(layout, names::kLogitsNorm, vocab_);
    }
  }

  void Reserve(const PassStep<Real>& step) override {
    const int64_t rows = step.rows();
    for (Slab<Real>* slab : {&before_, &normed_, &active_, &dnormed_, &dbefore_}) {
      slab->Reserve(rows, width_);
    }
    logits_.Reserve(rows, vocab_);
    dlogits_.Reserve(rows, vocab_);
    dunnormed_.Reserve(rows, vocab_);
    moments_.resize(static_cast<size_t>(2 * rows));
    logits_moments_.resize(static_cast<size_t>(2 * rows));
    this->ReserveLosses(rows);
  }

  void Pack(const PassStep<Real>& step, int worker, int workers) override {
    in_.Pack(step.weights, step.gradients != nullptr, worker, workers);
    head_.Pack(step.weights, step.gradients != nullptr, worker, workers);
  }

  void Forward(const PassStep<Real>& step, Part rows, RowsOfReal<const Real> x,
               const int32_t* targets, PassScratch<Real>& scratch) override {
    const int64_t first = rows.begin, count = rows.size();
    in_.Forward(
        step.weights,
        {.rows = count, .in = x.from(first), .from = {}, .out = before_.rows(first)});
    NormForward(Norm(step, rows), normed_.rows(first));
    for (int64_t r = first; r < rows.end; ++r) {
      HiddenForward<Real>(hidden_, width_, normed_.rows(r).data, nullptr,
                          active_.rows(r).data);
    }
    if (step.dropout) {
      step.Drop({.kind = DropoutKind::kHead}, rows, width_, active_.rows(),
                active_.rows(), scratch);
    }
    head_.Forward(step.weights, {.rows = count,
                                 .in = active_.rows(first),
                                 .from = {},
                                 .out = logits_.rows(first)});
    if (logits_norm_) {
      NormForward(LogitsNorm(step, rows), dlogits_.rows(first));
    } else {
      for (int64_t r = first; r < rows.end; ++r) {
        std::copy_n(logits_.rows(r).data, vocab_, dlogits_.rows(r).data);
      }
    }
    for (int64_t r = first; r < rows.end; ++r) {
      this->ComputeLoss(r, targets[step.Token(r)], vocab_, dlogits_.rows(r).data);
    }
  }

  void Backward(const PassStep<Real>& step, Part rows, RowsOfReal<const Real>,
                RowsOfReal<Real> dx, PassScratch<Real>& scratch) override {
    const int64_t first = rows.begin, count = rows.size();
    if (logits_norm_) {
      NormBackward<Real>(LogitsNorm(step, rows), dlogits_.rows(first), {},
                         dunnormed_.rows(first));
    }
    head_.Backward({.rows = count,
                    .in = DHead().from(first),
                    .from = {},
                    .out = dnormed_.rows(first)});
    if (step.dropout) {
      step.Drop({.kind = DropoutKind::kHead}, rows, width_, dnormed_.rows(),
                dnormed_.rows(), scratch);
    }
    // normed_ becomes its own gradient.
    for (int64_t r = first; r < rows.end; ++r) {
      HiddenBackward<Real>(hidden_, width_, dnormed_.rows(r).data, normed_.rows(r).data,
                           nullptr);
    }
    NormBackward<Real>(Norm(step, rows), normed_.rows(first), {}, dbefore_.rows(first));
    in_.Backward(
        {.rows = count, .in = dbefore_.rows(first), .from = {}, .out = dx.from(first)});
  }

  void AddJobs(const PassStep<Real>& step, RowsOfReal<const Real> x,
               GradientJobs<Real>& jobs) override {
    const RowLayout layout = step.layout();
    const auto add = [&](const LinearMap<Real>& map, RowsOfReal<const Real> dy,
                         RowsOfReal<const Real> in) {
      map.AddJobs({{layout, dy.data, dy.stride, in.data, in.stride}}, step.shards,
                  step.gradients, jobs);
    };
    add(in_, dbefore_.rows(), x);
    add(head_, DHead(), active_.rows());
    norm_.AddJobs({{.layout = layout,
                    .dz = normed_.rows(),
                    .x = before_.rows(),
                    .moments = moments_.data()}},
                  step.shards, step.gradients, jobs);
    if (!logits_norm_) return;
    logits_norm_->AddJobs({{.layout = layout,
                            .dz = dlogits_.rows(),
                            .x = logits_.rows(),
                            .moments = logits_moments_.data()}},
                          step.shards, step.gradients, jobs);
  }

 private:
  NormPass<Real> Norm(const PassStep<Real>& step, Part rows) {
    return norm_.Pass(step.weights, rows.size(), before_.rows(rows.begin),
                      moments_.data() + 2 * rows.begin);
  }
  NormPass<Real> LogitsNorm(const PassStep<Real>& step, Part rows) {
    return logits_norm_->Pass(step.weights, rows.size(), logits_.rows(rows.begin),
                              logits_moments_.data() + 2 * rows.begin);
  }
  // The gradient of W_b's output.
  RowsOfReal<const Real> DHead() {
    return logits_norm_ ? dunnormed_.rows() : dlogits_.rows();
  }

  const int64_t width_, vocab_;
  const Hidden hidden_;
  LinearMap<Real> in_;
  NormMap<Real> norm_;
  LinearMap<Real> head_;
  std::optional<NormMap<Real>> logits_norm_;
  Slab<Real> before_, normed_, active_;  // W_a x + b_a, its norm, the masked activation
  Slab<Real> dnormed_, dbefore_;
  Slab<Real> logits_, dlogits_, dunnormed_;  // dunnormed: before LN_V
  AlignedVector<Real> moments_, logits_moments_;
};

}  // namespace

template <class Real>
std::unique_ptr<LossBlock<Real>> MakeClassifierLoss(const Head& head, int64_t width,
                                                    int64_t vocab,
                                                    const FlatLayout& layout) {
  return std::make_unique<ClassifierLoss<Real>>(head, width, vocab, layout);
}

template std::unique_ptr<LossBlock<float>> MakeClassifierLoss(const Head&, int64_t,
                                                              int64_t,
                                                              const FlatLayout&);
template std::unique_ptr<LossBlock<double>> MakeClassifierLoss(const Head&, int64_t,
                                                               int64_t,
                                                               const FlatLayout&);

}  // namespace mnemon
