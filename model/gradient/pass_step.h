// SPDX-License-Identifier: MIT
// What the blocks of a pass share while it runs over one batch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/partition.h"
#include "model/gradient/attention.h"
#include "model/gradient/gradient_jobs.h"
#include "model/gradient/gradient_pass.h"

namespace mnemon {

// Set aside for one thread.
template <class Real>
struct PassScratch {
  AttentionScratch<Real> attention;
  GradientScratch<Real> gradient;
  std::vector<float> mask;
};

// A batch on its way through the blocks. Row b T + t is token t of sequence b.
template <class Real>
struct PassStep {
  int64_t sequences = 0, time = 0;  // B, T
  int64_t memory = 0;               // rows of a layer's memory, of each sequence
  int64_t shards = 1;
  const Real* weights = nullptr;
  Real* gradients = nullptr;           // null: forward alone
  std::optional<DropoutMask> dropout;  // none: evaluation
  int64_t first_row = 0;               // of the batch, for its masks

  int64_t rows() const { return sequences * time; }
  Part RowsOf(Part sequences) const {
    return {sequences.begin * time, sequences.end * time};
  }
  RowLayout layout() const { return {.sequences = sequences, .each = time}; }

  // to = from times the masks of some rows; the masks of `place` for sequence and
  // position of each. REQUIRES: dropout.
  void Drop(MaskPlace place, Part rows, int64_t width, RowsOfReal<const Real> from,
            RowsOfReal<Real> to, PassScratch<Real>& scratch) const {
    scratch.mask.resize(static_cast<size_t>(width));
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      place.row = first_row + r / time;
      place.position = r % time;
      dropout->Fill(place, scratch.mask);
      MultiplyBy(width, from.row(r), scratch.mask.data(), to.row(r));
    }
  }
};

}  // namespace mnemon
