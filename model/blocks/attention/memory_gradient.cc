// SPDX-License-Identifier: MIT
#include "model/blocks/attention/memory_gradient.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mnemon {
namespace {

template <class Real>
void CopyRows(Part rows, int64_t width, RowsOfReal<const Real> from,
              RowsOfReal<Real> to) {
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    std::copy_n(from.row(r), width, to.row(r));
  }
}

}  // namespace

template <class Real>
FeedbackAttention<Real>::FeedbackAttention(const Attention& attention,
                                           const BlockPlace& place, int64_t reading,
                                           int64_t readings, const FlatLayout& layout)
    : site_(place.site),
      readings_(readings),
      reading_(reading),
      width_(place.width),
      heads_(attention.heads),
      head_width_(attention.width),
      all_(heads_ * head_width_),
      positions_(attention.relative()->zero_row),
      scale_(static_cast<Real>(1.0 / std::sqrt(static_cast<double>(head_width_)))),
      norm_(layout, place),
      query_(layout, place.base + ".query", all_, width_),
      output_(layout, place.base + ".output", width_, all_),
      end_(layout, place),
      tables_(attention, place.base, positions_, layout),
      row_stride_(WholePanels(head_width_)) {
  query_.Reserve();
  output_.Reserve();
}

template <class Real>
void FeedbackAttention<Real>::Reserve(const PassStep<Real>& step, int64_t positions) {
  farthest_ = positions;
  const int64_t rows = step.rows();
  norm_.Reserve(rows);
  for (Slab<Real>* slab : {&queries_, &mixed_}) slab->Reserve(rows, all_);
  softmax_.resize(static_cast<size_t>(rows * heads_));
  if (step.gradients == nullptr) return;
  for (Slab<Real>* slab : {&dmixed_, &dquery_}) slab->Reserve(rows, all_);
  dnormed_.Reserve(rows, width_);
  if (step.dropout) dout_.Reserve(rows, width_);
  dtables_.keys.Reserve(step.sequences * farthest_, all_);
  dtables_.biases.Reserve(step.sequences * heads_, farthest_);
  dtables_.query_bias.Reserve(step.sequences, all_);
  dtables_.bias_rows.Reserve(step.sequences * farthest_, heads_);
}

template <class Real>
void FeedbackAttention<Real>::Reserve(const PassStep<Real>& step, int64_t positions,
                                      int64_t pairs,
                                      FeedbackScratch<Real>& scratch) const {
  const int64_t stride = RelativeStride();
  Grow(scratch.relative, pairs * stride);
  Grow(scratch.query, row_stride_);
  Grow(scratch.scores, WholePanels(positions));
  scratch.pass.mask.resize(
      static_cast<size_t>(std::max(WholePanels(positions), width_)));
  if (step.gradients == nullptr) return;
  Grow(scratch.by_distance, kFeedbackBlock * stride);
  const int64_t rows = readings_ * pairs * kFeedbackBlock;
  Grow(scratch.dscores, rows * stride);
  Grow(scratch.weights, rows * stride);
  for (auto* vectors : {&scratch.biased_queries, &scratch.queries, &scratch.douts}) {
    Grow(*vectors, rows * row_stride_);
  }
}

template <class Real>
int64_t FeedbackAttention<Real>::RelativeStride() const {
  // Rows begin up to 15 before the positions, and whole panels are read after them.
  return WholePanels(farthest_) + 2 * kColumnPanel;
}

template <class Real>
void FeedbackAttention<Real>::Pack(const PassStep<Real>& step, int worker,
                                   int workers) {
  query_.Pack(step.weights, step.gradients != nullptr, worker, workers);
  output_.Pack(step.weights, step.gradients != nullptr, worker, workers);
  tables_.Load(step.weights, PartOf(heads_, worker, workers), TableRows());
  if (worker == 0 && step.gradients != nullptr) {
    tables_.BeginSums(TableRows(), step.gradients);
  }
}

template <class Real>
void FeedbackAttention<Real>::Relative(const PassStep<Real>& step,
                                       const FeedbackToken& token, int64_t head,
                                       Part sequences, FeedbackScratch<Real>& scratch) {
  const int64_t stride = RelativeStride();
  const int64_t begin = farthest_ - token.positions,
                panel = begin / kColumnPanel * kColumnPanel;
  RightOperand<Real> table = tables_.head(head).by_distance.view();
  table.data += panel / kColumnPanel * table.panel;
  const Part rows = step.RowsOfToken(sequences, token.t);
  const RowsOfReal<Real> query = queries_.rows(rows.begin, head * head_width_);
  Real* const out =
      scratch.relative.data() + token.own.IndexOf(head, sequences.begin) * stride;
  Multiply(ProductCall<Real>{.rows = rows.size(),
                             .columns = farthest_ - panel,
                             .depth = head_width_,
                             .a = {query.data, query.stride, 1},
                             .b = table,
                             .bias = tables_.head(head).bias.data() + panel,
                             .out = out,
                             .out_stride = stride});
}

template <class Real>
SoftmaxRow<Real> FeedbackAttention<Real>::Scores(
    const FeedbackToken& token, int64_t row, int64_t sequence, int64_t head,
    const MemoryRows<Real>& memory, Real* scores, FeedbackScratch<Real>& scratch) {
  AddScaled<Real>(head_width_, 1, queries_.rows(row, head * head_width_).data,
                  tables_.head(head).query_bias, scratch.query.data());
  Multiply(ProductCall<Real>{.rows = 1,
                             .columns = token.positions,
                             .depth = head_width_,
                             .a = {scratch.query.data()},
                             .b = memory.keys(sequence, head, token.base),
                             .out = scores,
                             .out_stride = 0});
  const int64_t begin = (farthest_ - token.positions) % kColumnPanel;
  return {.first = token.first,
          .end = token.positions,
          .scale = scale_,
          .relative = scratch.relative.data() +
                      token.own.IndexOf(head, sequence) * RelativeStride() + begin,
          .scores = scores,
          .keys = token.positions};
}

template <class Real>
const float* FeedbackAttention<Real>::Mask(const PassStep<Real>& step,
                                           const FeedbackToken& token, int64_t sequence,
                                           int64_t head,
                                           FeedbackScratch<Real>& scratch) const {
  std::vector<float>& mask = scratch.pass.mask;
  if (static_cast<int64_t>(mask.size()) < token.positions) {
    mask.resize(static_cast<size_t>(token.positions));
  }
  step.dropout->Fill(
      {.layer = site_,
       .kind = DropoutKind::kAttention,
       .head = head,
       .row = step.first_row + sequence,
       .position = token.t},
      {mask.data() + token.first, static_cast<size_t>(token.positions - token.first)});
  std::fill_n(mask.begin(), token.first, 0.0f);
  return mask.data();
}

template <class Real>
void FeedbackAttention<Real>::Mix(const PassStep<Real>& step,
                                  const FeedbackToken& token,
                                  const MemoryRows<Real>& memory,
                                  FeedbackScratch<Real>& scratch) {
  token.own.ForHeads([&](int64_t h, Part sequences) {
    Relative(step, token, h, sequences, scratch);
    for (int64_t b = sequences.begin; b < sequences.end; ++b) {
      const int64_t row = token.t * step.sequences + b;
      Real* const scores = scratch.scores.data();
      softmax_[row * heads_ + h] =
          Softmax(Scores(token, row, b, h, memory, scores, scratch));
      if (step.dropout) {
        MultiplyBy(token.positions, scores, Mask(step, token, b, h, scratch), scores);
      }
      Multiply(
          ProductCall<Real>{.rows = 1,
                            .columns = head_width_,
                            .depth = token.positions,
                            .a = {scores},
                            .b = {memory.value_rows(b, h, token.base), row_stride_},
                            .out = mixed_.rows(row, h * head_width_).data,
                            .out_stride = 0});
    }
  });
}

template <class Real>
void FeedbackAttention<Real>::Forward(const PassStep<Real>& step, const Team& team,
                                      const FeedbackToken& token,
                                      RowsOfReal<const Real> x,
                                      const MemoryRows<Real>& memory,
                                      RowsOfReal<Real> out,
                                      FeedbackScratch<Real>& scratch) {
  const Part rows = step.RowsOfToken(token.own.sequences, token.t),
             own = team.ShareOf(rows);
  if (token.positions == 0) {
    team.Do([&] { CopyRows(own, width_, x, out); });
    return;
  }
  team.Do([&] { norm_.Forward(step.weights, own, x); });
  team.Do([&] {
    query_.Forward(step.weights,
                   {.rows = rows.size(),
                    .in = norm_.rows(rows.begin, x),
                    .from = {},
                    .out = queries_.rows(rows.begin)},
                   team.ColumnsOf(all_));
  });
  team.Do([&] { Mix(step, token, memory, scratch); });
  end_.Forward(step, team, output_,
               {.layer = site_, .kind = DropoutKind::kAttentionOutput}, rows,
               mixed_.rows(), x, out, scratch.pass);
}

template <class Real>
void FeedbackAttention<Real>::BeginBackward(const HeadShare& own) {
  own.ForHeads([&](int64_t h, Part sequences) {
    const int64_t column = h * head_width_;
    for (int64_t b = sequences.begin; b < sequences.end; ++b) {
      for (int64_t e = b * farthest_; e < (b + 1) * farthest_; ++e) {
        std::fill_n(dtables_.keys.rows(e, column).data, head_width_, Real{0});
      }
      std::fill_n(dtables_.biases.rows(b * heads_ + h).data, farthest_, Real{0});
      std::fill_n(dtables_.query_bias.rows(b, column).data, head_width_, Real{0});
    }
  });
}

template <class Real>
int64_t FeedbackAttention<Real>::BlockRow(const FeedbackToken& token, int64_t sequence,
                                          int64_t head, int64_t t) const {
  const int64_t pair =
      reading_ * token.own.pairs.size() + token.own.IndexOf(head, sequence);
  return pair * kFeedbackBlock + t % kFeedbackBlock;
}

template <class Real>
void FeedbackAttention<Real>::MixBackward(const PassStep<Real>& step,
                                          const FeedbackToken& token, int64_t block,
                                          MemoryRows<Real>& memory,
                                          FeedbackScratch<Real>& scratch) {
  const int64_t n = token.positions, stride = RelativeStride();
  token.own.ForHeads([&](int64_t h, Part sequences) {
    Relative(step, token, h, sequences, scratch);
    const int64_t column = h * head_width_;
    for (int64_t b = sequences.begin; b < sequences.end; ++b) {
      const int64_t row = token.t * step.sequences + b;
      const int64_t place = BlockRow(token, b, h, token.t);
      Real* const weights = scratch.weights.data() + place * stride;
      Real* const dscores = scratch.dscores.data() + place * stride;
      Real* const biased = scratch.biased_queries.data() + place * row_stride_;
      Real* const query = scratch.queries.data() + place * row_stride_;
      Real* const douts = scratch.douts.data() + place * row_stride_;
      SoftmaxAgain(Scores(token, row, b, h, memory, weights, scratch),
                   softmax_[row * heads_ + h]);
      std::copy_n(scratch.query.data(), head_width_, biased);
      std::copy_n(queries_.rows(row, column).data, head_width_, query);
      std::copy_n(dmixed_.rows(row, column).data, head_width_, douts);
      Multiply(ProductCall<Real>{.rows = 1,
                                 .columns = n,
                                 .depth = head_width_,
                                 .a = {douts},
                                 .b = memory.values(b, h, token.base),
                                 .out = dscores,
                                 .out_stride = 0});
      const Real delta =
          DotProduct<Real>(head_width_, douts, mixed_.rows(row, column).data);
      if (step.dropout) {
        const float* const mask = Mask(step, token, b, h, scratch);
        MultiplyBy(n, dscores, mask, dscores);
        SoftmaxBackward<Real>(n, weights, delta, scale_, nullptr, dscores);
        MultiplyBy(n, weights, mask, weights);
      } else {
        SoftmaxBackward<Real>(n, weights, delta, scale_, nullptr, dscores);
      }
      for (int64_t j = block; j < n; ++j) {
        Real* const dvalue = memory.dvalues(b, h, token.base) + j * row_stride_;
        Real* const dkey = memory.dkeys(b, h, token.base) + j * row_stride_;
        AddScaled(head_width_, weights[j], douts, dvalue, dvalue);
        AddScaled(head_width_, dscores[j], biased, dkey, dkey);
      }
      Multiply(ProductCall<Real>{.rows = 1,
                                 .columns = head_width_,
                                 .depth = n,
                                 .a = {dscores},
                                 .b = {memory.key_rows(b, h, token.base), row_stride_},
                                 .out = dquery_.rows(row, column).data,
                                 .out_stride = 0});
      // So far the gradient of q + u.
      Real* const sum = dtables_.query_bias.rows(b, column).data;
      AddScaled<Real>(head_width_, 1, dquery_.rows(row, column).data, sum, sum);
    }
    const Part rows = step.RowsOfToken(sequences, token.t);
    const RowsOfReal<Real> dquery = dquery_.rows(rows.begin, column);
    const int64_t place = BlockRow(token, sequences.begin, h, token.t);
    Multiply(ProductCall<Real>{
        .rows = rows.size(),
        .columns = head_width_,
        .depth = n,
        .a = {scratch.dscores.data() + place * stride, kFeedbackBlock * stride, 1},
        .b = {tables_.head(h).rows.data() + (farthest_ - n) * row_stride_, row_stride_},
        .from = dquery.data,
        .from_stride = dquery.stride,
        .out = dquery.data,
        .out_stride = dquery.stride});
  });
}

template <class Real>
void FeedbackAttention<Real>::Backward(const PassStep<Real>& step, const Team& team,
                                       const FeedbackToken& token, int64_t block,
                                       RowsOfReal<const Real> x,
                                       MemoryRows<Real>& memory,
                                       RowsOfReal<const Real> dout, RowsOfReal<Real> dx,
                                       FeedbackScratch<Real>& scratch) {
  const Part rows = step.RowsOfToken(token.own.sequences, token.t),
             own = team.ShareOf(rows);
  if (token.positions == 0) {
    team.Do([&] { CopyRows(own, width_, dout, dx); });
    return;
  }
  end_.Backward(step, team, output_,
                {.layer = site_, .kind = DropoutKind::kAttentionOutput}, rows, dout,
                dout_, dmixed_.rows(), scratch.pass);
  team.Do([&] { MixBackward(step, token, block, memory, scratch); });
  team.Do([&] {
    query_.Backward({.rows = rows.size(),
                     .in = dquery_.rows(rows.begin),
                     .from = {},
                     .out = dnormed_.rows(rows.begin)},
                    team.ColumnsOf(width_));
  });
  team.Do([&] { norm_.Backward(step.weights, own, x, dnormed_.rows(), dout, dx); });
}

template <class Real>
void FeedbackAttention<Real>::EndBlock(const FeedbackToken& first, int64_t count,
                                       int64_t block, MemoryRows<Real>& memory,
                                       FeedbackScratch<Real>& scratch) {
  const int64_t stride = RelativeStride();
  // The last token sees most.
  const int64_t most = first.positions + count - 1;
  const auto add = [&](const Real* a, int64_t a_stride, int64_t rows, const Real* b,
                       Real* to, int64_t to_stride) {
    Multiply(ProductCall<Real>{.rows = rows,
                               .columns = head_width_,
                               .depth = count,
                               .a = {a, 1, a_stride},
                               .b = {b, row_stride_},
                               .from = to,
                               .from_stride = to_stride,
                               .out = to,
                               .out_stride = to_stride});
  };
  first.own.ForHeads([&](int64_t h, Part sequences) {
    for (int64_t b = sequences.begin; b < sequences.end; ++b) {
      const int64_t place = BlockRow(first, b, h, first.t);
      const Real* const dscores = scratch.dscores.data() + place * stride;
      add(scratch.weights.data() + place * stride, stride, block,
          scratch.douts.data() + place * row_stride_, memory.dvalues(b, h, first.base),
          row_stride_);
      add(dscores, stride, block, scratch.biased_queries.data() + place * row_stride_,
          memory.dkeys(b, h, first.base), row_stride_);
      // In the order of distances: those of the last token come first.
      Real* const bias = dtables_.biases.rows(b * heads_ + h).data + (farthest_ - most);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t n = first.positions + i;
        Real* const row = scratch.by_distance.data() + i * stride;
        std::fill_n(row, most - n, Real{0});
        std::copy_n(dscores + i * stride, n, row + most - n);
        AddScaled<Real>(most, 1, row, bias, bias);
      }
      const RowsOfReal<Real> tables =
          dtables_.keys.rows(b * farthest_ + farthest_ - most, h * head_width_);
      add(scratch.by_distance.data(), stride, most,
          scratch.queries.data() + place * row_stride_, tables.data, tables.stride);
    }
  });
}

template <class Real>
void FeedbackAttention<Real>::EndBackward(const PassStep<Real>& step,
                                          const HeadShare& own) {
  own.ForHeads([&](int64_t h, Part sequences) {
    const Real* const u = tables_.query_bias(step.weights, h);
    for (int64_t b = sequences.begin; b < sequences.end; ++b) {
      const Real* const dbias = dtables_.biases.rows(b * heads_ + h).data;
      Real* const du = dtables_.query_bias.rows(b, h * head_width_).data;
      for (int64_t e = 0; e < farthest_; ++e) {
        if (!tables_.tied()) {
          dtables_.bias_rows.rows(b * farthest_ + e).data[h] = dbias[e];
          continue;
        }
        // S = u.R: its gradients contribute to both.
        Real* const dkey = dtables_.keys.rows(b * farthest_ + e, h * head_width_).data;
        AddScaled(head_width_, dbias[e], u, dkey, dkey);
        AddScaled(head_width_, dbias[e], tables_.head(h).rows.data() + e * row_stride_,
                  du, du);
      }
    }
  });
}

template <class Real>
void FeedbackAttention<Real>::AddJobs(const PassStep<Real>& step,
                                      RowsOfReal<const Real> x,
                                      RowsOfReal<const Real> dout,
                                      GradientJobs<Real>& jobs) {
  // Tokens without a memory take no part.
  const int64_t skipped = farthest_ < step.time ? step.time - farthest_ : 0;
  const int64_t first = skipped * step.sequences;
  const RowLayout layout = {
      .sequences = step.sequences, .each = step.time - skipped, .interleaved = true};
  const auto add = [&](const LinearMap<Real>& map, RowsOfReal<const Real> dy,
                       RowsOfReal<const Real> in) {
    map.AddJobs({{layout, dy.row(first), dy.stride, in.row(first), in.stride}},
                step.shards, step.gradients, jobs);
  };
  add(output_, end_.OfMap(step, dout, dout_), mixed_.rows());
  add(query_, dquery_.rows(), norm_.rows(0, x));
  norm_.AddJobs(step, layout, first, x, dnormed_.rows(), jobs);
  tables_.AddJobs({.queries = {.sequences = step.sequences, .each = 1},
                   .dquery_bias = dtables_.query_bias.rows(),
                   .dkeys = dtables_.keys.rows(),
                   .dbiases = dtables_.bias_rows.rows()},
                  TableRows(), step.shards, step.sequences, step.gradients, jobs);
}

template class FeedbackAttention<float>;
template class FeedbackAttention<double>;

}  // namespace mnemon
