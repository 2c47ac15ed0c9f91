// SPDX-License-Identifier: MIT
// State shared by the blocks of a pass while it runs over one batch.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <typeinfo>
#include <vector>

#include "base/partition.h"
#include "model/blocks/pass_input.h"
#include "model/compute/dropout_mask.h"
#include "model/compute/gradient/gradient_jobs.h"
#include "model/compute/gradient/row_operations.h"
#include "model/compute/norm.h"

namespace mnemon {

// Scratch of one thread.
template <class Real>
class PassScratch {
 public:
  GradientScratch<Real> gradient;
  std::vector<float> mask;

  // Scratch that blocks of one kind share, one after the other. May throw
  // std::bad_alloc.
  template <class Scratch>
  Scratch& Of() {
    std::shared_ptr<void>& own = own_[typeid(Scratch)];
    if (own == nullptr) own = std::make_shared<Scratch>();
    return *static_cast<Scratch*>(own.get());
  }

 private:
  std::map<std::type_index, std::shared_ptr<void>> own_;
};

// A batch on its way through the blocks. Row b T + t is token t of sequence b or, if
// rows are interleaved, row t B + b.
template <class Real>
struct PassStep {
  int64_t sequences = 0, time = 0;  // B, T
  int64_t position = 0;             // of token 0
  bool interleaved = false;
  int64_t memory = 0;  // rows of a layer's memory per sequence
  Shards shards;
  const Real* weights = nullptr;
  Real* gradients = nullptr;           // null: forward only
  std::optional<DropoutMask> dropout;  // none: evaluation
  int64_t first_row = 0;               // first row of the batch, for its masks

  int64_t rows() const { return sequences * time; }
  int64_t SequenceOf(int64_t row) const {
    return interleaved ? row % sequences : row / time;
  }
  int64_t PositionOf(int64_t row) const {
    return interleaved ? row / sequences : row % time;
  }
  // Index of a row's token in [B, T].
  int64_t Token(int64_t row) const { return SequenceOf(row) * time + PositionOf(row); }
  RowLayout layout() const {
    return {.sequences = sequences, .each = time, .interleaved = interleaved};
  }
  // Rows of token t of some sequences. REQUIRES: interleaved.
  Part RowsOfToken(Part some, int64_t t) const {
    return {t * sequences + some.begin, t * sequences + some.end};
  }
  // Rows of some sequences. REQUIRES: not interleaved.
  Part RowsOf(Part some) const { return {some.begin * time, some.end * time}; }

  // Multiplies `from` by the masks of some rows: the masks of `place` at the sequence
  // and position of each row. REQUIRES: dropout.
  void Drop(MaskPlace place, Part rows, int64_t width, RowsOfReal<const Real> from,
            RowsOfReal<Real> to, PassScratch<Real>& scratch) const {
    scratch.mask.resize(static_cast<size_t>(width));
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      place.row = first_row + SequenceOf(r);
      place.position = PositionOf(r);
      dropout->Fill(place, scratch.mask);
      MultiplyBy(width, from.row(r), scratch.mask.data(), to.row(r));
    }
  }
};

// Place of a block in a model.
struct BlockPlace {
  std::string base;          // prefix of the names of its tensors
  Norm norm = Norm::None();  // of its input
  // See SubLayer.
  Norm behind = Norm::None();
  Norm after = Norm::None();
  double scale = 1;
  int64_t width = 0;  // D
  int64_t site = 0;   // of its dropout masks
};

// The step of a pass over `input` from `position` on; the pass sets the rows of memory.
template <class Real>
PassStep<Real> MakeStep(double dropout, const PassInput& input, int64_t position,
                        const Real* weights, Real* gradients) {
  const Part own = input.shards.OwnSequences();
  PassStep<Real> step = {.sequences = own.size(),
                         .time = input.time,
                         .position = position,
                         .shards = input.shards,
                         .weights = weights,
                         .gradients = gradients,
                         .dropout = {}};
  if (input.dropout && dropout > 0) {
    step.dropout = DropoutMask(dropout, *input.dropout);
    step.first_row = own.begin;
  }
  return step;
}

}  // namespace mnemon
