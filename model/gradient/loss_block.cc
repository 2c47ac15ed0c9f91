// SPDX-License-Identifier: MIT
#include "model/gradient/loss_block.h"

#include "model/weights/tensor_names.h"

namespace mnemon {

template <class Real>
LossBlock<Real>::LossBlock(const ModelConfig& config, const FlatLayout& layout)
    : width_(config.d_model),
      vocab_(config.vocab),
      norm_(layout, names::kNorm, width_),
      head_(config.tie_head
                ? LinearMap<Real>::Tied(layout.At(names::Weight(names::kEmbed)), vocab_,
                                        width_)
                : LinearMap<Real>(layout, names::kHead, vocab_, width_)) {
  head_.Reserve();
}

template <class Real>
void LossBlock<Real>::Reserve(const PassStep<Real>& step) {
  normed_.Reserve(step.rows(), width_);
  dnormed_.Reserve(step.rows(), width_);
  moments_.resize(static_cast<size_t>(2 * step.rows()));
  logits_.Reserve(step.rows(), vocab_);
  losses_.resize(static_cast<size_t>(step.rows()));
}

template <class Real>
void LossBlock<Real>::Pack(const PassStep<Real>& step, int worker, int workers) {
  head_.Pack(step.weights, step.gradients != nullptr, worker, workers);
}

template <class Real>
void LossBlock<Real>::Forward(const PassStep<Real>& step, Part rows,
                              RowsOfReal<const Real> x, const int32_t* targets) {
  const int64_t first = rows.begin, count = rows.size();
  NormForward(
      norm_.Pass(step.weights, count, x.from(first), moments_.data() + 2 * first),
      normed_.rows(first));
  head_.Forward(step.weights, {.rows = count,
                               .in = normed_.rows(first),
                               .from = {},
                               .out = logits_.rows(first)});
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const int32_t target = targets[step.SequenceOf(r) * step.time + step.PositionOf(r)];
    bool best = false;
    losses_[r].nats = CrossEntropy(vocab_, target, logits_.rows(r).data, &best);
    losses_[r].correct = best ? 1 : 0;
  }
}

template <class Real>
void LossBlock<Real>::Backward(const PassStep<Real>& step, Part rows,
                               RowsOfReal<const Real> x, RowsOfReal<Real> dx) {
  const int64_t first = rows.begin, count = rows.size();
  head_.Backward({.rows = count,
                  .in = logits_.rows(first),
                  .from = {},
                  .out = dnormed_.rows(first)});
  NormBackward<Real>(
      norm_.Pass(step.weights, count, x.from(first), moments_.data() + 2 * first),
      dnormed_.rows(first), {}, dx.from(first));
}

template <class Real>
void LossBlock<Real>::AddJobs(const PassStep<Real>& step, RowsOfReal<const Real> x,
                              GradientJobs<Real>& jobs) {
  const RowsOfReal<const Real> dlogits = logits_.rows(), normed = normed_.rows();
  head_.AddJobs(
      {{step.layout(), dlogits.data, dlogits.stride, normed.data, normed.stride}},
      step.shards, step.gradients, jobs);
  norm_.AddJobs({{.layout = step.layout(),
                  .dz = dnormed_.rows(),
                  .x = x,
                  .moments = moments_.data()}},
                step.shards, step.gradients, jobs);
}

template <class Real>
PassLoss LossBlock<Real>::Loss() const {
  PassLoss all;
  for (const PassLoss& loss : losses_) {
    all.nats += loss.nats;
    all.correct += loss.correct;
  }
  return all;
}

template class LossBlock<float>;
template class LossBlock<double>;

}  // namespace mnemon
