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
  // Tables of the block named `base`, whose queries read rows below `end`. REQUIRES:
  // its positions are relative.
  RelativeTables(const Attention& attention, const std::string& base, int64_t end,
                 const FlatLayout& layout);

  // S = u.R.
  bool tied() const { return bias_ < 0; }
  const RelativeHead<Real>& head(int64_t h) const { return heads_[h]; }
  // u of a head [K].
  const Real* query_bias(const Real* weights, int64_t h) const {
    return weights + query_bias_ + h * width_;
  }

  // Loads some heads of the rows that a batch reads, its last distances; rows below 0
  // are
  // 0. Several threads may load different heads.
  void Load(const Real* weights, Part heads, Part rows);
  // Prepares the sums of a batch that reads `rows`: zeros for rows that only longer
  // batches have read. Called by one thread.
  void BeginSums(Part rows, Real* gradients);

  // Gradients from a batch.
  struct Gradients {
    RowLayout queries;                      // layout of dquery_bias
    RowsOfReal<const Real> dquery_bias;     // [.., H K]
    RowsOfReal<const Real> dkeys, dbiases;  // [B rows, H K], [B rows, H]
  };
  // `rows` as for BeginSums; rows below 0 are ignored.
  void AddJobs(const Gradients& of, Part rows, const Shards& shards, int64_t sequences,
               Real* gradients, GradientJobs<Real>& jobs) const;
  // See GradientPass::UnusedGradients.
  std::vector<Part> UnusedGradients() const;

 private:
  const int64_t count_, width_;            // H, K
  const int64_t end_, rows_;               // end of the rows read; number of rows
  const int64_t key_, bias_, query_bias_;  // offsets in the layout; bias_ -1: tied
  int64_t first_;                          // first row that had a gradient so far
  std::vector<RelativeHead<Real>> heads_;
};

}  // namespace mnemon
