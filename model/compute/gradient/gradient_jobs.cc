// SPDX-License-Identifier: MIT
#include "model/compute/gradient/gradient_jobs.h"

#include <algorithm>
#include <utility>

namespace mnemon {
namespace {

constexpr int64_t kVectorColumns = 256;
constexpr int64_t kEmbeddingColumns = 64;

Part Columns(int64_t width, int64_t unit, int64_t most) {
  return {unit * most, std::min(width, (unit + 1) * most)};
}

template <class Real>
Real* Slots(GradientScratch<Real>& scratch, int64_t size, int64_t shards) {
  const int64_t all = size * SlotsOf(shards);
  if (static_cast<int64_t>(scratch.sums.size()) < all) scratch.sums.resize(all);
  return scratch.sums.data();
}

template <class Real>
void Join(Real* slots, int64_t size, int64_t to, int64_t from) {
  AddScaled<Real>(size, 1, slots + from * size, slots + to * size, slots + to * size);
}

// Columns of one vector.
template <class Real>
void ComputeVector(const VectorGradientCall<Real>& call, int64_t vector, Part columns,
                   GradientScratch<Real>& scratch) {
  const int64_t width = columns.size(), size = 2 * width;
  Real* const slots = Slots(scratch, size, call.shards.own.size());
  SumShards(
      0, call.shards.own.size(), 0,
      [&](int64_t shard, int64_t to) {
        Real* const sums = slots + to * size;
        std::fill_n(sums, size, Real{0});
        for (const auto& part : call.parts) {
          const RowPieces rows = RowsOf(part.layout, call.shards.SequencesOf(shard));
          const ColumnSums<Real> add = {
              .dz = {part.dz.data + vector * call.from + columns.begin, part.dz.stride},
              .x = {part.x.data == nullptr ? nullptr : part.x.data + columns.begin,
                    part.x.stride},
              .moments = part.moments,
              .gain = part.x.data == nullptr ? nullptr : sums,
              .bias = sums + width};
          AddColumnSums(add, rows, Part{0, width});
        }
      },
      [&](int64_t to, int64_t from) { Join(slots, size, to, from); });
  if (call.gain != nullptr) std::copy_n(slots, width, call.gain + columns.begin);
  if (call.bias != nullptr) {
    std::copy_n(slots + width, width, call.bias + vector * call.to + columns.begin);
  }
}

// A unit is some columns of one vector, or several whole vectors.
constexpr int64_t kUnitVectors = 16;

template <class Real>
int64_t Units(const VectorGradientCall<Real>& call) {
  return call.vectors == 1 ? (call.width + kVectorColumns - 1) / kVectorColumns
                           : (call.vectors + kUnitVectors - 1) / kUnitVectors;
}

template <class Real>
void ComputeUnit(const VectorGradientCall<Real>& call, int64_t unit,
                 GradientScratch<Real>& scratch) {
  if (call.vectors == 1) {
    return ComputeVector(call, 0, Columns(call.width, unit, kVectorColumns), scratch);
  }
  const Part vectors = Columns(call.vectors, unit, kUnitVectors);
  for (int64_t v = vectors.begin; v < vectors.end; ++v) {
    ComputeVector(call, v, Part{0, call.width}, scratch);
  }
}

template <class Real>
void ComputeEmbedding(const EmbeddingGradientCall<Real>& call, int64_t unit,
                      GradientScratch<Real>& scratch) {
  const Part columns = Columns(call.width, unit, kEmbeddingColumns);
  const int64_t width = columns.size(), size = call.vocab * width;
  Real* const slots = Slots(scratch, size, call.shards.own.size());
  SumShards(
      0, call.shards.own.size(), 0,
      [&](int64_t shard, int64_t to) {
        Real* const sums = slots + to * size;
        std::fill_n(sums, size, Real{0});
        const RowPieces rows = RowsOf(call.layout, call.shards.SequencesOf(shard));
        for (int64_t i = 0; i < rows.count; ++i) {
          const int64_t r = rows.at(i);
          Real* const sum = sums + call.ids[r] * width;
          AddScaled(width, call.scale, call.dx.row(r) + columns.begin, sum, sum);
        }
      },
      [&](int64_t to, int64_t from) { Join(slots, size, to, from); });
  for (int64_t v = 0; v < call.vocab; ++v) {
    std::copy_n(slots + v * width, width, call.out + v * call.width + columns.begin);
  }
}

}  // namespace

template <class Real>
void GradientJobs<Real>::Clear() {
  matrices_.clear();
  vectors_.clear();
  embeddings_.clear();
  units_.clear();
  next_ = 0;
}

template <class Real>
void GradientJobs<Real>::Add(WeightGradientCall<Real> call) {
  for (int64_t u = 0; u < Units(call); ++u) {
    units_.push_back({Unit::kMatrix, matrices_.size(), u});
  }
  matrices_.push_back(std::move(call));
}

template <class Real>
void GradientJobs<Real>::Add(VectorGradientCall<Real> call) {
  for (int64_t u = 0; u < Units(call); ++u) {
    units_.push_back({Unit::kVector, vectors_.size(), u});
  }
  vectors_.push_back(std::move(call));
}

template <class Real>
void GradientJobs<Real>::Add(EmbeddingGradientCall<Real> call) {
  for (int64_t u = 0; u * kEmbeddingColumns < call.width; ++u) {
    units_.push_back({Unit::kEmbedding, embeddings_.size(), u});
  }
  embeddings_.push_back(std::move(call));
}

template <class Real>
void GradientJobs<Real>::Work(GradientScratch<Real>& scratch) {
  for (size_t i = next_++; i < units_.size(); i = next_++) {
    const Unit& unit = units_[i];
    switch (unit.kind) {
      case Unit::kMatrix:
        ComputeUnit(matrices_[unit.call], unit.unit, scratch);
        break;
      case Unit::kVector:
        ComputeUnit(vectors_[unit.call], unit.unit, scratch);
        break;
      case Unit::kEmbedding:
        ComputeEmbedding(embeddings_[unit.call], unit.unit, scratch);
        break;
    }
  }
}

template class GradientJobs<float>;
template class GradientJobs<double>;

}  // namespace mnemon
