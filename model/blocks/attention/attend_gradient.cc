// SPDX-License-Identifier: MIT
#include "model/blocks/attention/attend_gradient.h"

#include <algorithm>

namespace mnemon {
namespace {

// Queries of a block: two tiles of a product.
constexpr int64_t kBlock = 24;

// Concatenated rows, padded to whole panels.
template <class Real>
void Gather(RowsOfReal<const Real> first, int64_t first_rows,
            RowsOfReal<const Real> second, int64_t second_rows, int64_t width,
            AlignedVector<Real>& to) {
  const int64_t stride = WholePanels(width);
  Grow(to, (first_rows + second_rows) * stride);
  Real* at = to.data();
  const auto copy = [&](const RowsOfReal<const Real>& rows, int64_t count) {
    for (int64_t r = 0; r < count; ++r, at += stride) {
      std::copy_n(rows.row(r), width, at);
      std::fill(at + width, at + stride, Real{0});
    }
  };
  copy(first, first_rows);
  copy(second, second_rows);
}

template <class Real>
class Attention {
 public:
  Attention(const AttentionHead<Real>& head, AttentionScratch<Real>& scratch)
      : head_(head),
        shape_(head.shape),
        scratch_(scratch),
        stride_(WholePanels(shape_.width)),
        score_stride_(WholePanels(shape_.keys()) + kColumnPanel) {
    const int64_t keys = shape_.keys(), width = shape_.width;
    Gather(head.memory_key, shape_.memory, head.key, shape_.queries, width,
           scratch.key_rows);
    Gather(head.memory_value, shape_.memory, head.value, shape_.queries, width,
           scratch.value_rows);
    scratch.keys.Reserve(width, keys);
    scratch.keys.FillAll(scratch.key_rows.data(), 1, stride_);
    Grow(scratch.queries, kBlock * stride_);
    Grow(scratch.plain_queries, kBlock * stride_);
    Grow(scratch.out, kBlock * stride_);
    Grow(scratch.scores, kBlock * score_stride_);
    if (masked()) scratch.mask.resize(WholePanels(keys));
    if (relative()) Grow(scratch.relative, kBlock * RelativeStride());
  }

  void Forward() {
    for (int64_t i = 0; i < shape_.queries; i += kBlock) ForwardBlock(BlockAt(i));
  }

  void Backward(const AttentionGradients<Real>& to) {
    const int64_t keys = shape_.keys(), width = shape_.width;
    scratch_.values.Reserve(width, keys);
    scratch_.values.FillAll(scratch_.value_rows.data(), 1, stride_);
    for (auto* sums : {&scratch_.dkeys, &scratch_.dvalues}) {
      Grow(*sums, keys * stride_);
      std::fill_n(sums->data(), keys * stride_, Real{0});
    }
    Grow(scratch_.dscores, kBlock * score_stride_);
    if (masked()) Grow(scratch_.kept, kBlock * score_stride_);
    if (capped()) Grow(scratch_.slopes, score_stride_);
    if (relative()) {
      Grow(scratch_.dbias, WholePanels(shape_.farthest() + 1));
      std::fill(scratch_.dbias.begin(), scratch_.dbias.end(), Real{0});
    }
    for (int64_t i = 0; i < shape_.queries; i += kBlock) {
      BackwardBlock(BlockAt(i), to);
    }
    for (int64_t e = 0; relative() && e <= shape_.farthest(); ++e) {
      *to.drelative_bias.row(e) = scratch_.dbias[e];
    }
    Scatter(scratch_.dkeys, to.adds, to.dmemory_key, to.dkey);
    Scatter(scratch_.dvalues, to.adds, to.dmemory_value, to.dvalue);
  }

 private:
  // Some queries and the keys that any of them sees, starting at a multiple of 16.
  struct Block {
    Part queries, keys;
    // With relative positions: the distances that may be read, in whole panels.
    Part distances;
  };

  bool masked() const { return head_.dropout.mask != nullptr; }
  bool relative() const { return head_.relative != nullptr; }
  bool capped() const { return head_.cap > 0; }
  // Includes room for what rows read before and after the existing distances.
  int64_t RelativeStride() const {
    return kMargin + WholePanels(shape_.keys()) + WholePanels(kBlock) +
           2 * kColumnPanel;
  }

  Block BlockAt(int64_t i) const {
    const int64_t end = std::min(shape_.queries, i + kBlock);
    Block block = {.queries = {i, end},
                   .keys = {shape_.Seen(i).begin / kColumnPanel * kColumnPanel,
                            shape_.Seen(end - 1).end},
                   .distances = {}};
    if (relative()) {
      const int64_t first = std::max<int64_t>(0, Distance(end - 1, block.keys.begin));
      block.distances = {first / kColumnPanel * kColumnPanel,
                         std::min(shape_.farthest() + 1, Distance(i, block.keys.end))};
    }
    return block;
  }

  // Index of the distance from query i to key j among farthest .. 0.
  int64_t Distance(int64_t i, int64_t j) const {
    return shape_.farthest() - (shape_.memory + i - j);
  }
  // Offset in the row of query i of the block of the block's first key.
  int64_t RelativeBegin(const Block& block, int64_t i) const {
    return Distance(i, block.keys.begin) - block.distances.begin;
  }
  // Offset of the block's first distance in a row of `relative`. Up to kBlock + 14 keys
  // that are not seen come before it.
  static constexpr int64_t kMargin = 48;
  Real* RelativeRow(const Block& block, int64_t i) const {
    return scratch_.relative.data() + (i - block.queries.begin) * RelativeStride() +
           kMargin;
  }
  Real* Row(AlignedVector<Real>& rows, const Block& block, int64_t i) const {
    return rows.data() + (i - block.queries.begin) * score_stride_;
  }

  // Loads q + u and, with relative positions, q of a block.
  void LoadQueries(const Block& block) {
    for (int64_t i = block.queries.begin; i < block.queries.end; ++i) {
      const int64_t at = (i - block.queries.begin) * stride_;
      Real* const query = scratch_.queries.data() + at;
      std::copy_n(head_.query.row(i), shape_.width, query);
      std::fill(query + shape_.width, query + stride_, Real{0});
      if (!relative()) continue;
      std::copy_n(query, stride_, scratch_.plain_queries.data() + at);
      AddScaled<Real>(shape_.width, 1, query, head_.relative->query_bias, query);
    }
  }

  void Scores(const Block& block) {
    LoadQueries(block);
    RightOperand<Real> keys = scratch_.keys.view();
    keys.data += block.keys.begin / kColumnPanel * keys.panel;
    Multiply(ProductCall<Real>{.rows = block.queries.size(),
                               .columns = block.keys.size(),
                               .depth = shape_.width,
                               .a = {scratch_.queries.data(), stride_, 1},
                               .b = keys,
                               .out = scratch_.scores.data(),
                               .out_stride = score_stride_});
    if (!relative()) return;
    RightOperand<Real> distances = head_.relative->by_distance.view();
    distances.data += block.distances.begin / kColumnPanel * distances.panel;
    Multiply(
        ProductCall<Real>{.rows = block.queries.size(),
                          .columns = block.distances.size(),
                          .depth = shape_.width,
                          .a = {scratch_.plain_queries.data(), stride_, 1},
                          .b = distances,
                          .bias = head_.relative->bias.data() + block.distances.begin,
                          .out = RelativeRow(block, block.queries.begin),
                          .out_stride = RelativeStride()});
  }

  SoftmaxRow<Real> RowOf(const Block& block, int64_t i) {
    const Part seen = shape_.Seen(i);
    return {.first = seen.begin - block.keys.begin,
            .end = seen.end - block.keys.begin,
            .scale = head_.scale,
            .relative =
                relative() ? RelativeRow(block, i) + RelativeBegin(block, i) : nullptr,
            .slope = head_.slope,
            .cap = head_.cap,
            .query = shape_.memory + i - block.keys.begin,
            .scores = Row(scratch_.scores, block, i),
            .keys = block.keys.size()};
  }

  // Mask of query i over the block's keys.
  const float* Mask(const Block& block, int64_t i) {
    MaskPlace place = head_.dropout.place;
    place.position += i;
    head_.dropout.mask->Fill(
        place, {scratch_.mask.data(), static_cast<size_t>(block.keys.end)});
    return scratch_.mask.data() + block.keys.begin;
  }

  void ForwardBlock(const Block& block) {
    Scores(block);
    for (int64_t i = block.queries.begin; i < block.queries.end; ++i) {
      head_.moments[i] = Softmax(RowOf(block, i));
      if (!masked()) continue;
      Real* const weights = Row(scratch_.scores, block, i);
      MultiplyBy(block.keys.size(), weights, Mask(block, i), weights);
    }
    Real* const out = head_.out.row(block.queries.begin);
    Multiply(ProductCall<Real>{
        .rows = block.queries.size(),
        .columns = shape_.width,
        .depth = block.keys.size(),
        .a = {scratch_.scores.data(), score_stride_, 1},
        .b = {scratch_.value_rows.data() + block.keys.begin * stride_, stride_},
        .out = out,
        .out_stride = head_.out.stride});
  }

  void BackwardBlock(const Block& block, const AttentionGradients<Real>& to) {
    const int64_t rows = block.queries.size(), keys = block.keys.size(),
                  width = shape_.width, first = block.queries.begin;
    Scores(block);
    RightOperand<Real> values = scratch_.values.view();
    values.data += block.keys.begin / kColumnPanel * values.panel;
    Multiply(ProductCall<Real>{.rows = rows,
                               .columns = keys,
                               .depth = width,
                               .a = {to.dout.row(first), to.dout.stride, 1},
                               .b = values,
                               .out = scratch_.dscores.data(),
                               .out_stride = score_stride_});
    for (int64_t i = first; i < block.queries.end; ++i) {
      SoftmaxRow<Real> row = RowOf(block, i);
      if (capped()) row.slopes = scratch_.slopes.data();
      SoftmaxAgain(row, head_.moments[i]);
      Real* const weights = Row(scratch_.scores, block, i);
      Real* const dweights = Row(scratch_.dscores, block, i);
      if (masked()) {
        const float* const mask = Mask(block, i);
        MultiplyBy(keys, weights, mask, Row(scratch_.kept, block, i));
        MultiplyBy(keys, dweights, mask, dweights);
      }
      const Real delta = DotProduct<Real>(width, to.dout.row(i), head_.out.row(i));
      SoftmaxBackward<Real>(keys, weights, delta, head_.scale,
                            capped() ? scratch_.slopes.data() : nullptr, dweights);
      std::copy_n(to.dout.row(i), width, scratch_.out.data() + (i - first) * stride_);
    }
    const auto transposed = [&](const Real* a, int64_t a_stride, int64_t count,
                                const Real* b, Real* sums, int64_t stride) {
      Multiply(ProductCall<Real>{.rows = count,
                                 .columns = width,
                                 .depth = rows,
                                 .a = {a, 1, a_stride},
                                 .b = {b, stride_},
                                 .from = sums,
                                 .from_stride = stride,
                                 .out = sums,
                                 .out_stride = stride});
    };
    const int64_t begin = block.keys.begin * stride_;
    const AlignedVector<Real>& kept = masked() ? scratch_.kept : scratch_.scores;
    transposed(kept.data(), score_stride_, keys, scratch_.out.data(),
               scratch_.dvalues.data() + begin, stride_);
    transposed(scratch_.dscores.data(), score_stride_, keys, scratch_.queries.data(),
               scratch_.dkeys.data() + begin, stride_);
    const RowsOfReal<Real>& dquery = relative() ? to.dbiased_query : to.dquery;
    Multiply(ProductCall<Real>{.rows = rows,
                               .columns = width,
                               .depth = keys,
                               .a = {scratch_.dscores.data(), score_stride_, 1},
                               .b = {scratch_.key_rows.data() + begin, stride_},
                               .out = dquery.row(first),
                               .out_stride = dquery.stride});
    if (!relative()) return;

    // Sums by distance.
    const Part distances = block.distances;
    for (int64_t i = first; i < block.queries.end; ++i) {
      Real* const by_distance = RelativeRow(block, i);
      std::fill_n(by_distance, distances.size(), Real{0});
      const Part seen = shape_.Seen(i);
      std::copy_n(Row(scratch_.dscores, block, i) + (seen.begin - block.keys.begin),
                  seen.size(), by_distance + Distance(i, seen.begin) - distances.begin);
      Real* const bias = scratch_.dbias.data() + distances.begin;
      AddScaled<Real>(distances.size(), 1, by_distance, bias, bias);
    }
    Multiply(ProductCall<Real>{
        .rows = rows,
        .columns = width,
        .depth = distances.size(),
        .a = {RelativeRow(block, first), RelativeStride(), 1},
        .b = {head_.relative->rows.data() + distances.begin * stride_, stride_},
        .from = to.dbiased_query.row(first),
        .from_stride = to.dbiased_query.stride,
        .out = to.dquery.row(first),
        .out_stride = to.dquery.stride});
    transposed(RelativeRow(block, first), RelativeStride(), distances.size(),
               scratch_.plain_queries.data(), to.drelative.row(distances.begin),
               to.drelative.stride);
  }

  void Scatter(const AlignedVector<Real>& sums, bool adds,
               const RowsOfReal<Real>& memory, const RowsOfReal<Real>& own) const {
    const Real* at = sums.data();
    for (int64_t j = 0; j < shape_.keys(); ++j, at += stride_) {
      if (j < shape_.memory && memory.data == nullptr) continue;
      Real* const to = j < shape_.memory ? memory.row(j) : own.row(j - shape_.memory);
      if (adds) {
        AddScaled<Real>(shape_.width, 1, at, to, to);
      } else {
        std::copy_n(at, shape_.width, to);
      }
    }
  }

  const AttentionHead<Real>& head_;
  const AttentionShape& shape_;
  AttentionScratch<Real>& scratch_;
  const int64_t stride_;        // of rows of a head
  const int64_t score_stride_;  // of rows of keys
};

}  // namespace

template <class Real>
void RelativeHead<Real>::Load(const Real* keys, const Real* biases, const Real* u,
                              int64_t heads, int64_t head, int64_t width, Part range) {
  const int64_t stride = WholePanels(width);
  Grow(rows, range.size() * stride);
  Grow(bias, WholePanels(range.size()));
  for (int64_t e = 0; e < range.size(); ++e) {
    if (range.begin + e < 0) {
      std::fill_n(rows.data() + e * stride, stride, Real{0});
      bias[e] = 0;
      continue;
    }
    const int64_t row = (range.begin + e) * heads + head;
    std::copy_n(keys + row * width, width, rows.data() + e * stride);
    std::fill_n(rows.data() + e * stride + width, stride - width, Real{0});
    bias[e] = biases == nullptr
                  ? DotProduct<Real>(width, keys + row * width, u + head * width)
                  : biases[row];
  }
  by_distance.Reserve(width, range.size());
  by_distance.FillAll(rows.data(), 1, stride);
  query_bias = u + head * width;
}

template <class Real>
void AttentionForward(const AttentionHead<Real>& head,
                      AttentionScratch<Real>& scratch) {
  Attention<Real>(head, scratch).Forward();
}

template <class Real>
void AttentionBackward(const AttentionHead<Real>& head,
                       const AttentionGradients<Real>& gradients,
                       AttentionScratch<Real>& scratch) {
  Attention<Real>(head, scratch).Backward(gradients);
}

template struct RelativeHead<float>;
template struct RelativeHead<double>;
template void AttentionForward(const AttentionHead<float>&, AttentionScratch<float>&);
template void AttentionForward(const AttentionHead<double>&, AttentionScratch<double>&);
template void AttentionBackward(const AttentionHead<float>&,
                                const AttentionGradients<float>&,
                                AttentionScratch<float>&);
template void AttentionBackward(const AttentionHead<double>&,
                                const AttentionGradients<double>&,
                                AttentionScratch<double>&);

}  // namespace mnemon
