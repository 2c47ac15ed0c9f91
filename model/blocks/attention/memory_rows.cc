// SPDX-License-Identifier: MIT
#include "model/blocks/attention/memory_rows.h"

#include <algorithm>

namespace mnemon {
template <class Real>
void MemoryRows<Real>::Reserve(int64_t sequences, int64_t heads, int64_t width,
                               int64_t count, bool gradients) {
  heads_ = heads;
  gradients_ = gradients;
  width_ = width;
  count_ = WholePanels(count);
  stride_ = WholePanels(width);
  const int64_t all = sequences * heads * count_;
  const auto grow = [&](AlignedVector<Real>& vector, int64_t each) {
    Grow(vector, all * each);
  };
  grow(keys_, width_);
  grow(value_rows_, stride_);
  if (!gradients) return;
  grow(values_, width_);
  grow(key_rows_, stride_);
  grow(dkeys_, stride_);
  grow(dvalues_, stride_);
}

template <class Real>
void MemoryRows<Real>::Set(int64_t sequence, int64_t head, int64_t j, const Real* key,
                           const Real* value) {
  const int64_t panel = At(sequence, head) * count_ * width_ +
                        j / kColumnPanel * kColumnPanel * width_ + j % kColumnPanel;
  const auto transpose = [&](const Real* from, AlignedVector<Real>& panels) {
    Real* const to = panels.data() + panel;
    for (int64_t i = 0; i < width_; ++i) to[i * kColumnPanel] = from[i];
  };
  const auto copy = [&](const Real* from, AlignedVector<Real>& rows) {
    Real* const to = rows.data() + Row(sequence, head, j);
    std::copy_n(from, width_, to);
    std::fill(to + width_, to + stride_, Real{0});
  };
  transpose(key + head * width_, keys_);
  copy(value + head * width_, value_rows_);
  if (!gradients_) return;
  transpose(value + head * width_, values_);
  copy(key + head * width_, key_rows_);
}

template <class Real>
void MemoryRows<Real>::ClearGradients(int64_t sequence, int64_t head) {
  const int64_t first = Row(sequence, head, 0), count = count_ * stride_;
  std::fill_n(dkeys_.data() + first, count, Real{0});
  std::fill_n(dvalues_.data() + first, count, Real{0});
}

template <class Real>
void MemoryRows<Real>::CopyGradients(int64_t sequence, int64_t head, int64_t j,
                                     Real* dkey, Real* dvalue) const {
  const int64_t at = Row(sequence, head, j);
  std::copy_n(dkeys_.data() + at, width_, dkey + head * width_);
  std::copy_n(dvalues_.data() + at, width_, dvalue + head * width_);
}

template class MemoryRows<float>;
template class MemoryRows<double>;

}  // namespace mnemon
