// SPDX-License-Identifier: MIT
// The tables of relative positions of one block in training: u, R and S as its heads
// read them, and the sums of their gradients.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/blocks/attention/attend_gradient.h"
#include "model/blocks/attention/settings.h"
#include "model/compute/gradient/flat_layout.h"
#include "model/compute/gradient/gradient_jobs.h"

namespace mnemon {

template <class Real>
class RelativeTables {
 public:
  // Of a block named `base`, whose queries read rows below `end`. REQUIRES: its
  // positions are relative.
  RelativeTables(const Attention& attention, const std::string& base, int64_t end,
                 const FlatLayout& layout);

  // S = u.R.
  bool tied() const { return bias_ < 0; }
  const RelativeHead<Real>& head(int64_t h) const { return heads_[h]; }
  // u of a head [K].
  const Real* query_bias(const Real* weights, int64_t h) const {
    return weights + query_bias_ + h * width_;
  }

  // Takes over some heads of the rows that a batch reads, its last distances; rows
  // below 0 are 0. Several threads may load different heads.
  void Load(const Real* weights, Part heads, Part rows);
  // Before the sums of a batch that reads `rows`: zeros for rows that only longer
  // batches have read. By one thread.
  void BeginSums(Part rows, Real* gradients);

  // What a batch gives.
  struct Gradients {
    RowLayout queries;                      // of dquery_bias
    RowsOfReal<const Real> dquery_bias;     // [.., H K]
    RowsOfReal<const Real> dkeys, dbiases;  // [B rows, H K], [B rows, H]
  };
  // `rows` as for BeginSums; those below 0 are left out.
  void AddJobs(const Gradients& of, Part rows, const Shards& shards, int64_t sequences,
               Real* gradients, GradientJobs<Real>& jobs) const;
  // As GradientPass::UnusedGradients.
  std::vector<Part> UnusedGradients() const;

 private:
  const int64_t count_, width_;            // H, K
  const int64_t end_, rows_;               // read at most, and all there are
  const int64_t key_, bias_, query_bias_;  // in the layout; bias_ -1: tied
  int64_t first_;                          // of all that had a gradient so far
  std::vector<RelativeHead<Real>> heads_;
};

}  // namespace mnemon
