// SPDX-License-Identifier: MIT
#include "model/blocks/feed_forward/gradient.h"

namespace mnemon {

template <class Real>
FeedForwardBlock<Real>::FeedForwardBlock(const FeedForward& feed,
                                         const BlockPlace& place,
                                         const FlatLayout& layout)
    : site_(place.site),
      width_(place.width),
      d_ff_(feed.hidden),
      hidden_{feed.activation, feed.gated},
      norm_(layout, place),
      in_(layout, place.base + ".in", d_ff_, width_),
      out_(layout, place.base + ".out", width_, d_ff_),
      end_(layout, place) {
  in_.Reserve();
  if (feed.gated) {
    factor_.emplace(layout, place.base + ".factor", d_ff_, width_);
    factor_->Reserve();
  }
  out_.Reserve();
}

template <class Real>
void FeedForwardBlock<Real>::Reserve(int64_t rows, bool dropout,
                                     FeedForwardGradients<Real>& gradients) {
  norm_.Reserve(rows);
  hidden_rows_.Reserve(rows, d_ff_);
  if (!fused_relu()) before_.Reserve(rows, d_ff_);
  if (factor_) factors_.Reserve(rows, d_ff_);
  end_.Reserve(rows);
  if (end_.needs_room(dropout)) gradients.dout.Reserve(rows, width_);
  gradients.dhidden.Reserve(rows, d_ff_);
  gradients.dnormed.Reserve(rows, width_);
}

template <class Real>
void FeedForwardBlock<Real>::Pack(const PassStep<Real>& step, int worker, int workers) {
  const bool backward = step.gradients != nullptr;
  in_.Pack(step.weights, backward, worker, workers);
  if (factor_) factor_->Pack(step.weights, backward, worker, workers);
  out_.Pack(step.weights, backward, worker, workers);
}

template <class Real>
void FeedForwardBlock<Real>::Widen(const PassStep<Real>& step, RowsOfReal<const Real> x,
                                   Part rows, Part columns) {
  const int64_t first = rows.begin, count = rows.size();
  const RowsOfReal<const Real> normed = norm_.rows(first, x);
  in_.Forward(step.weights,
              {.rows = count,
               .in = normed,
               .from = {},
               .relu = fused_relu(),
               .out = before().rows(first)},
              columns);
  if (factor_) {
    factor_->Forward(
        step.weights,
        {.rows = count, .in = normed, .from = {}, .out = factors_.rows(first)},
        columns);
  }
  for (int64_t r = rows.begin; !fused_relu() && r < rows.end; ++r) {
    const int64_t c = columns.begin;
    HiddenForward<Real>(hidden_, columns.size(), before_.rows(r, c).data,
                        factor_ ? factors_.rows(r, c).data : nullptr,
                        hidden_rows_.rows(r, c).data);
  }
}

template <class Real>
void FeedForwardBlock<Real>::Forward(const PassStep<Real>& step, const Team& team,
                                     Part rows, RowsOfReal<const Real> x,
                                     RowsOfReal<Real> out, PassScratch<Real>& scratch) {
  const Part own = team.ShareOf(rows);
  team.Do([&] { norm_.Forward(step.weights, own, x); });
  team.Do([&] { Widen(step, x, rows, team.ColumnsOf(d_ff_)); });
  MaskPlace place = {.layer = site_, .kind = DropoutKind::kHidden};
  if (step.dropout) {
    team.Do([&] {
      step.Drop(place, own, d_ff_, hidden_rows_.rows(), hidden_rows_.rows(), scratch);
    });
  }
  place.kind = DropoutKind::kFeedForwardOutput;
  end_.Forward(step, team, out_, place, rows, hidden_rows_.rows(), x, out, scratch);
}

template <class Real>
void FeedForwardBlock<Real>::Backward(const PassStep<Real>& step, const Team& team,
                                      Part rows, RowsOfReal<const Real> x,
                                      RowsOfReal<const Real> dout, RowsOfReal<Real> dx,
                                      FeedForwardGradients<Real>& gradients,
                                      PassScratch<Real>& scratch) {
  const int64_t first = rows.begin, count = rows.size();
  const Part own = team.ShareOf(rows);
  MaskPlace place = {.layer = site_, .kind = DropoutKind::kFeedForwardOutput};
  const RowsOfReal<Real> dhidden = gradients.dhidden.rows();
  end_.Backward(step, team, out_, place, rows, dout, gradients.dout, dhidden, scratch);
  team.Do([&] {
    if (step.dropout) {
      place.kind = DropoutKind::kHidden;
      step.Drop(place, own, d_ff_, dhidden, dhidden, scratch);
    }
    for (int64_t r = own.begin; r < own.end; ++r) {
      if (fused_relu()) {
        ReluBackward<Real>(d_ff_, hidden_rows_.rows(r).data, dhidden.row(r));
      } else {
        HiddenBackward<Real>(hidden_, d_ff_, dhidden.row(r), before_.rows(r).data,
                             factor_ ? factors_.rows(r).data : nullptr);
      }
    }
  });
  const RowsOfReal<Real> dbefore = fused_relu() ? dhidden : before_.rows(),
                         dnormed = gradients.dnormed.rows(first);
  team.Do([&] {
    const Part columns = team.ColumnsOf(width_);
    in_.Backward({.rows = count, .in = dbefore.from(first), .from = {}, .out = dnormed},
                 columns);
    if (factor_) {
      factor_->Backward(
          {.rows = count, .in = factors_.rows(first), .from = dnormed, .out = dnormed},
          columns);
    }
  });
  team.Do([&] {
    norm_.Backward(step.weights, own, x, gradients.dnormed.rows(), end_.OfSum(dout),
                   dx);
  });
}

template <class Real>
void FeedForwardBlock<Real>::AddJobs(const PassStep<Real>& step,
                                     RowsOfReal<const Real> x,
                                     RowsOfReal<const Real> dout,
                                     FeedForwardGradients<Real>& gradients,
                                     GradientJobs<Real>& jobs) {
  const RowLayout layout = step.layout();
  const auto add = [&](const LinearMap<Real>& map, RowsOfReal<const Real> dy,
                       RowsOfReal<const Real> in) {
    map.AddJobs({{layout, dy.data, dy.stride, in.data, in.stride}}, step.shards,
                step.gradients, jobs);
  };
  add(out_, end_.OfMap(step, dout, gradients.dout), hidden_rows_.rows());
  end_.AddJobs(step, dout, jobs);
  const RowsOfReal<const Real> z = norm_.rows(0, x);
  add(in_, fused_relu() ? gradients.dhidden.rows() : before_.rows(), z);
  if (factor_) add(*factor_, factors_.rows(), z);
  norm_.AddJobs(step, x, gradients.dnormed.rows(), jobs);
}

template class FeedForwardBlock<float>;
template class FeedForwardBlock<double>;

}  // namespace mnemon
