// SPDX-License-Identifier: MIT
// A projection of a feedback memory in training: the keys and values of all positions,
// made from each token's memory as soon as it exists, and the gradients from their
// readers. Rows are interleaved, row t B + b; the carry's are b n + j.
#pragma once

#include <cstdint>
#include <string>

#include "model/blocks/attention/memory_rows.h"
#include "model/blocks/pass_step.h"
#include "model/compute/gradient/head_share.h"
#include "model/compute/gradient/linear.h"
#include "model/compute/gradient/slab.h"
#include "model/compute/gradient/team.h"

namespace mnemon {

template <class Real>
class MemoryProjection {
 public:
  // Maps base.key and base.value, from D = `width` to H = `heads` times `head_width`.
  MemoryProjection(const FlatLayout& layout, const std::string& base, int64_t width,
                   int64_t heads, int64_t head_width);

  // Read by attention, which also adds its gradients.
  MemoryRows<Real>& rows() { return rows_; }

  // Makes room for `positions` of each sequence. May throw std::bad_alloc.
  void Reserve(const PassStep<Real>& step, int64_t positions);
  // Packs the weights: part `worker` of `workers`.
  void Pack(const PassStep<Real>& step, int worker, int workers);

  // Makes some rows of the carry [B n, D] the first positions.
  void Recall(const PassStep<Real>& step, RowsOfReal<const Real> carried, Part rows);
  // Computes some columns of keys and values of the memories `mixed` of some rows;
  // then, when all columns exist, stores own heads of token t as position `j`.
  void Project(const PassStep<Real>& step, RowsOfReal<const Real> mixed, Part rows,
               Part columns);
  void Put(const PassStep<Real>& step, const HeadShare& own, int64_t t, int64_t j);

  // For own heads: clears the gradients; collects the complete gradients of position
  // `j` into the rows of token t; collects those of the carry.
  void BeginBackward(const HeadShare& own);
  void Take(const PassStep<Real>& step, const HeadShare& own, int64_t t, int64_t j);
  void TakeCarried(const PassStep<Real>& step, const HeadShare& own);
  // Computes some columns of the gradient of the memories of some rows; adds to `from`
  // unless its data is null.
  void Backward(Part rows, RowsOfReal<const Real> from, RowsOfReal<Real> dmixed,
                Part columns);
  // `projected`: the rows of `mixed` that were projected.
  void AddJobs(const PassStep<Real>& step, const RowLayout& projected,
               RowsOfReal<const Real> mixed, RowsOfReal<const Real> carried,
               GradientJobs<Real>& jobs);

 private:
  const int64_t heads_, head_width_;
  LinearMap<Real> key_, value_;
  MemoryRows<Real> rows_;
  Slab<Real> dkey_, dvalue_;              // [rows, H K]; forward keys and values
  Slab<Real> carry_dkey_, carry_dvalue_;  // of the carry [B n, H K], likewise
};

}  // namespace mnemon
