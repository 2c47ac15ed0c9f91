// SPDX-License-Identifier: MIT
// The end of a sub-layer in training:
//   out = after(x + scale drop(behind(map(in))))
// where each of the norms is optional. Computed in phases, each called by all members
// of a team.
#pragma once

#include <cstdint>
#include <optional>

#include "model/blocks/pass_step.h"
#include "model/compute/gradient/linear.h"
#include "model/compute/gradient/slab.h"
#include "model/compute/gradient/team.h"

namespace mnemon {

template <class Real>
class SubLayerEnd {
 public:
  SubLayerEnd(const FlatLayout& layout, const BlockPlace& place)
      : width_(place.width), scale_(static_cast<Real>(place.scale)) {
    if (place.behind.applies())
      behind_.emplace(layout, place.base + ".behind_norm", width_, place.behind);
    if (place.after.applies())
      after_.emplace(layout, place.base + ".after_norm", width_, place.after);
  }

  // Whether the gradient of map(in) needs a buffer of its own, [rows, D].
  bool needs_room(bool dropout) const { return dropout || !plain(); }
  // May throw std::bad_alloc.
  void Reserve(int64_t rows) {
    if (plain()) return;
    mapped_.Reserve(rows, width_);
    if (behind_) ReserveNorm(rows, behind_rows_);
    if (!after_) return;
    sum_.Reserve(rows, width_);
    ReserveNorm(rows, after_rows_);
  }

  template <class Map>
  void Forward(const PassStep<Real>& step, const Team& team, const Map& map,
               const MaskPlace& place, Part rows, RowsOfReal<const Real> in,
               RowsOfReal<const Real> x, RowsOfReal<Real> out,
               PassScratch<Real>& scratch) {
    const bool fused = plain() && !step.dropout;
    const RowsOfReal<Real> mapped = plain() ? out : mapped_.rows();
    team.Do([&] {
      map.Forward(step.weights,
                  {.rows = rows.size(),
                   .in = in.from(rows.begin),
                   .from = fused ? x.from(rows.begin) : RowsOfReal<const Real>{},
                   .out = mapped.from(rows.begin)},
                  team.ColumnsOf(width_));
    });
    if (fused) return;
    team.Do([&] {
      const Part own = team.ShareOf(rows);
      RowsOfReal<Real> given = mapped;
      if (behind_) {
        given = behind_rows_.values.rows();
        NormForward(Pass(*behind_, behind_rows_, step, own, mapped),
                    given.from(own.begin));
      }
      if (step.dropout) step.Drop(place, own, width_, given, given, scratch);
      const RowsOfReal<Real> sum = after_ ? sum_.rows() : out;
      for (int64_t r = own.begin; r < own.end; ++r) {
        AddScaled<Real>(width_, scale_, given.row(r), x.row(r), sum.row(r));
      }
      if (after_) {
        NormForward(Pass(*after_, after_rows_, step, own, sum), out.from(own.begin));
      }
    });
  }

  // din: the gradient of `in` for dout. `room`: see needs_room.
  template <class Map>
  void Backward(const PassStep<Real>& step, const Team& team, const Map& map,
                const MaskPlace& place, Part rows, RowsOfReal<const Real> dout,
                Slab<Real>& room, RowsOfReal<Real> din, PassScratch<Real>& scratch) {
    if (needs_room(step.dropout.has_value())) {
      team.Do(
          [&] { BackwardRows(step, place, team.ShareOf(rows), dout, room, scratch); });
    }
    const RowsOfReal<const Real> dmapped = OfMap(step, dout, room);
    team.Do([&] {
      map.Backward({.rows = rows.size(),
                    .in = dmapped.from(rows.begin),
                    .from = {},
                    .out = din.from(rows.begin)},
                   team.ColumnsOf(map.inputs()));
    });
  }

  // The gradient of map(in). REQUIRES: Backward has run.
  RowsOfReal<const Real> OfMap(const PassStep<Real>& step, RowsOfReal<const Real> dout,
                               Slab<Real>& room) const {
    return needs_room(step.dropout.has_value()) ? RowsOfReal<const Real>(room.rows())
                                                : dout;
  }
  // The gradient of the sum, which goes around the block.
  RowsOfReal<const Real> OfSum(RowsOfReal<const Real> dout) {
    return after_ ? RowsOfReal<const Real>(after_rows_.values.rows()) : dout;
  }

  void AddJobs(const PassStep<Real>& step, RowsOfReal<const Real> dout,
               GradientJobs<Real>& jobs) {
    const auto add = [&](const NormMap<Real>& norm, const NormRows& rows,
                         RowsOfReal<const Real> dz, RowsOfReal<const Real> x) {
      norm.AddJobs(
          {{.layout = step.layout(), .dz = dz, .x = x, .moments = rows.moments.data()}},
          step.shards, step.gradients, jobs);
    };
    if (behind_)
      add(*behind_, behind_rows_, behind_rows_.values.rows(), mapped_.rows());
    if (after_) add(*after_, after_rows_, dout, sum_.rows());
  }

 private:
  // Output of a norm, later its gradient, and its moments.
  struct NormRows {
    Slab<Real> values;  // [rows, D]
    AlignedVector<Real> moments;
  };

  bool plain() const { return !behind_ && !after_ && scale_ == 1; }

  void ReserveNorm(int64_t rows, NormRows& norm) {
    norm.values.Reserve(rows, width_);
    norm.moments.resize(static_cast<size_t>(2 * rows));
  }

  static NormPass<Real> Pass(const NormMap<Real>& norm, NormRows& rows,
                             const PassStep<Real>& step, Part own,
                             RowsOfReal<const Real> x) {
    return norm.Pass(step.weights, own.size(), x.from(own.begin),
                     rows.moments.data() + 2 * own.begin);
  }

  void BackwardRows(const PassStep<Real>& step, const MaskPlace& place, Part own,
                    RowsOfReal<const Real> dout, Slab<Real>& room,
                    PassScratch<Real>& scratch) {
    if (after_) {
      NormBackward<Real>(Pass(*after_, after_rows_, step, own, sum_.rows()),
                         dout.from(own.begin), {}, after_rows_.values.rows(own.begin));
    }
    const RowsOfReal<const Real> dsum = OfSum(dout);
    // Gradient of what is added to x, after its norm if there is one.
    const RowsOfReal<Real> dgiven = behind_ ? behind_rows_.values.rows() : room.rows();
    if (scale_ != 1 || !step.dropout) {
      for (int64_t r = own.begin; r < own.end; ++r) {
        AddScaled<Real>(width_, scale_, dsum.row(r), nullptr, dgiven.row(r));
      }
    }
    if (step.dropout) {
      const RowsOfReal<const Real> from =
          scale_ != 1 ? RowsOfReal<const Real>(dgiven) : dsum;
      step.Drop(place, own, width_, from, dgiven, scratch);
    }
    if (behind_) {
      NormBackward<Real>(Pass(*behind_, behind_rows_, step, own, mapped_.rows()),
                         dgiven.from(own.begin), {}, room.rows(own.begin));
    }
  }

  const int64_t width_;
  const Real scale_;
  std::optional<NormMap<Real>> behind_, after_;
  Slab<Real> mapped_, sum_;  // [rows, D]: map(in), and x with what is added
  NormRows behind_rows_, after_rows_;
};

}  // namespace mnemon
