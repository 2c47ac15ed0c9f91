// SPDX-License-Identifier: MIT
// Keys and values of a growing memory for all sequences and heads, laid out for its
// readers, and their gradients, to which readers add.
#pragma once

#include <cstdint>

#include "model/compute/gradient/product.h"
#include "model/compute/gradient/row_operations.h"

namespace mnemon {

template <class Real>
class MemoryRows {
 public:
  // Allocates `count` positions for `sequences` x `heads` memories of vectors of
  // `width`. May throw std::bad_alloc.
  void Reserve(int64_t sequences, int64_t heads, int64_t width, int64_t count,
               bool gradients);

  // Sets position j of one memory from a key and a value of all heads, each
  // [heads width].
  void Set(int64_t sequence, int64_t head, int64_t j, const Real* key,
           const Real* value);
  // Sets the gradients of one memory to zero.
  void ClearGradients(int64_t sequence, int64_t head);
  // Copies the gradients at position j of one memory to their places in [heads width].
  void CopyGradients(int64_t sequence, int64_t head, int64_t j, Real* dkey,
                     Real* dvalue) const;

  // Keys of one memory from position `base` on, a multiple of kColumnPanel: transposed
  // [width, count] for products with a vector, and rows [count, stride()].
  RightOperand<Real> keys(int64_t sequence, int64_t head, int64_t base) const {
    return Panels(keys_, sequence, head, base);
  }
  RightOperand<Real> values(int64_t sequence, int64_t head, int64_t base) const {
    return Panels(values_, sequence, head, base);
  }
  const Real* key_rows(int64_t sequence, int64_t head, int64_t base) const {
    return key_rows_.data() + Row(sequence, head, base);
  }
  const Real* value_rows(int64_t sequence, int64_t head, int64_t base) const {
    return value_rows_.data() + Row(sequence, head, base);
  }
  Real* dkeys(int64_t sequence, int64_t head, int64_t base) {
    return dkeys_.data() + Row(sequence, head, base);
  }
  Real* dvalues(int64_t sequence, int64_t head, int64_t base) {
    return dvalues_.data() + Row(sequence, head, base);
  }
  int64_t stride() const { return stride_; }

 private:
  int64_t At(int64_t sequence, int64_t head) const { return sequence * heads_ + head; }
  int64_t Row(int64_t sequence, int64_t head, int64_t base) const {
    return (At(sequence, head) * count_ + base) * stride_;
  }
  RightOperand<Real> Panels(const AlignedVector<Real>& panels, int64_t sequence,
                            int64_t head, int64_t base) const {
    return {.data = panels.data() + (At(sequence, head) * count_ + base) * width_,
            .depth = kColumnPanel,
            .panel = width_ * kColumnPanel};
  }

  int64_t heads_ = 0, width_ = 0;
  int64_t count_ = 0;   // positions, padded to whole panels
  int64_t stride_ = 0;  // of rows
  bool gradients_ = false;
  AlignedVector<Real> keys_, values_;          // [.., count / 16, width, 16]
  AlignedVector<Real> key_rows_, value_rows_;  // [.., count, stride]
  AlignedVector<Real> dkeys_, dvalues_;        // likewise
};

}  // namespace mnemon
