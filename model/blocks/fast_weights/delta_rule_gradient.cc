// SPDX-License-Identifier: MIT
#include "model/blocks/fast_weights/delta_rule_gradient.h"

#include <algorithm>

#include "base/partition.h"
#include "model/blocks/fast_weights/feature_map_gradient.h"

namespace mnemon {
namespace {

constexpr double kNormaliserEps = 1e-6;

// [rows, width] of scratch.
template <class Real>
struct Matrix {
  Real* data;
  int64_t stride;

  Real* row(int64_t r) const { return data + r * stride; }
  LeftOperand<Real> left() const { return {data, stride, 1}; }
  LeftOperand<Real> transposed() const { return {data, 1, stride}; }
  RightOperand<Real> right() const { return {data, stride}; }
};

template <class Real>
Matrix<Real> Room(AlignedVector<Real>& vector, int64_t rows, int64_t width) {
  const int64_t stride = WholePanels(width);
  Grow(vector, rows * stride);
  return {vector.data(), stride};
}

template <class Real>
class Chunks {
 public:
  Chunks(const DeltaHead<Real>& head, DeltaScratch<Real>& scratch)
      : head_(head),
        shape_(head.shape),
        scratch_(scratch),
        width_(shape_.width),
        features_(shape_.features()),
        keys_(Room(scratch.keys, kDeltaChunk, features_)),
        queries_(Room(scratch.queries, kDeltaChunk, features_)),
        divisors_(Room(scratch.divisors, 2, kDeltaChunk)),
        overlaps_(Room(scratch.square[0], kDeltaChunk, kDeltaChunk)),
        weights_(Room(scratch.square[1], kDeltaChunk, kDeltaChunk)),
        writes_(Room(scratch.writes, kDeltaChunk, width_)),
        errors_(Room(scratch.errors, kDeltaChunk, width_)),
        sums_(Room(scratch.sums, 1, kDeltaChunk)) {
    Room(scratch.roll, 1, 6 * width_ + kColumnPanel);
  }

  void Forward() {
    for (int64_t c = 0; c < shape_.chunks(); ++c) {
      const Part rows = RowsOf(c);
      Compute(c, rows);
      Matrix<Real> next = State(c + 1);
      Product(features_, width_, rows.size(), keys_.transposed(), writes_.right(),
              State(c), next);
      if (!shape_.normalised) continue;
      Real* const z = Sum(c + 1);
      std::copy_n(Sum(c), features_, z);
      for (int64_t i = 0; i < rows.size(); ++i) {
        AddScaled<Real>(features_, 1, keys_.row(i), z, z);
      }
    }
  }

  void Backward(const DeltaGradients<Real>& to) {
    const int64_t size = shape_.state_size();
    Grow(scratch_.dstate, size);
    std::fill_n(scratch_.dstate.data(), size, Real{0});
    for (int64_t c = shape_.chunks(); c-- > 0;) ChunkBackward(c, to);
  }

 private:
  Part RowsOf(int64_t chunk) const {
    return {chunk * kDeltaChunk, std::min(shape_.time, (chunk + 1) * kDeltaChunk)};
  }
  // W^T and z.
  Matrix<Real> State(int64_t chunk) const {
    return {head_.states + chunk * shape_.state_size(), shape_.state_stride()};
  }
  Real* Sum(int64_t chunk) const {
    return State(chunk).data + features_ * shape_.state_stride();
  }

  // out = [from +] a b.
  static void Product(int64_t rows, int64_t columns, int64_t depth,
                      const LeftOperand<Real>& a, const RightOperand<Real>& b,
                      const Matrix<Real>& from, const Matrix<Real>& out) {
    Multiply(ProductCall<Real>{.rows = rows,
                               .columns = columns,
                               .depth = depth,
                               .a = a,
                               .b = b,
                               .from = from.data,
                               .from_stride = from.stride,
                               .out = out.data,
                               .out_stride = out.stride});
  }
  static constexpr Matrix<Real> kNothing = {nullptr, 0};

  Real Beta(int64_t row) const { return *head_.beta.row(row); }

  // Features, X and O of a chunk.
  void Compute(int64_t chunk, Part rows) {
    const int64_t count = rows.size();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t r = rows.begin + i;
      divisors_.row(0)[i] = FeaturesForward(shape_.map, width_, head_.key.row(r),
                                            keys_.row(i), scratch_.roll.data());
      divisors_.row(1)[i] = FeaturesForward(shape_.map, width_, head_.query.row(r),
                                            queries_.row(i), scratch_.roll.data());
    }
    scratch_.keys_across.Reserve(features_, count);
    scratch_.keys_across.FillAll(keys_.data, 1, keys_.stride);
    Product(count, count, features_, queries_.left(), scratch_.keys_across.view(),
            kNothing, weights_);
    for (int64_t i = 0; i < count; ++i) {
      std::fill(weights_.row(i) + i + 1, weights_.row(i) + count, Real{0});
    }
    if (shape_.delta) {
      Solve(chunk, rows);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        std::copy_n(head_.value.row(rows.begin + i), width_, writes_.row(i));
      }
    }
    const Matrix<Real> out = {head_.out.row(rows.begin), head_.out.stride};
    Product(count, width_, features_, queries_.left(), State(chunk).right(), kNothing,
            out);
    Product(count, width_, count, weights_.left(), writes_.right(), out, out);
    if (!shape_.normalised) return;
    for (int64_t i = 0; i < count; ++i) {
      Real sum = DotProduct<Real>(features_, Sum(chunk), queries_.row(i));
      for (int64_t j = 0; j <= i; ++j) sum += weights_.row(i)[j];
      sums_.data[i] = sum + static_cast<Real>(kNormaliserEps);
      AddScaled<Real>(width_, Real{1} / sums_.data[i], out.row(i), nullptr, out.row(i));
    }
  }

  // x_i = beta_i (v_i - W0 k_i - sum over j < i of (k_i.k_j) x_j).
  void Solve(int64_t chunk, Part rows) {
    const int64_t count = rows.size();
    Product(count, count, features_, keys_.left(), scratch_.keys_across.view(),
            kNothing, overlaps_);
    Product(count, width_, features_, keys_.left(), State(chunk).right(), kNothing,
            errors_);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t r = rows.begin + i;
      Real* const error = errors_.row(i);
      Real* const write = writes_.row(i);
      AddScaled<Real>(width_, -1, error, head_.value.row(r), error);
      std::copy_n(error, width_, write);
      for (int64_t j = 0; j < i; ++j) {
        AddScaled<Real>(width_, -overlaps_.row(i)[j], writes_.row(j), write, write);
      }
      AddScaled<Real>(width_, Beta(r), write, nullptr, write);
    }
  }

  void ChunkBackward(int64_t chunk, const DeltaGradients<Real>& to) {
    const Part rows = RowsOf(chunk);
    const int64_t count = rows.size();
    Compute(chunk, rows);
    const Matrix<Real> douts = Room(scratch_.outs, kDeltaChunk, width_),
                       dwrites = Room(scratch_.dwrites, kDeltaChunk, width_),
                       dkeys = Room(scratch_.dkeys, kDeltaChunk, features_),
                       dqueries = Room(scratch_.dqueries, kDeltaChunk, features_),
                       dweights = Room(scratch_.square[2], kDeltaChunk, kDeltaChunk);
    const Matrix<Real> dstate = {scratch_.dstate.data(), shape_.state_stride()};
    Real* const dsum = dstate.data + features_ * dstate.stride;
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(to.dout.row(rows.begin + i), width_, douts.row(i));
    }
    // Backward through the normaliser: gradients of O before it, and of z.phi(q).
    if (shape_.normalised) {
      for (int64_t i = 0; i < count; ++i) {
        const Real inverse = Real{1} / sums_.data[i];
        sums_.data[i] = -inverse * DotProduct<Real>(width_, douts.row(i),
                                                    head_.out.row(rows.begin + i));
        AddScaled<Real>(width_, inverse, douts.row(i), nullptr, douts.row(i));
      }
    }
    Product(count, width_, features_, keys_.left(), dstate.right(), kNothing, dwrites);
    Product(count, width_, count, weights_.transposed(), douts.right(), dwrites,
            dwrites);
    scratch_.writes_across.Reserve(width_, count);
    scratch_.writes_across.FillAll(writes_.data, 1, writes_.stride);
    Product(count, count, width_, douts.left(), scratch_.writes_across.view(), kNothing,
            dweights);
    for (int64_t i = 0; i < count; ++i) {
      Real* const row = dweights.row(i);
      std::fill(row + i + 1, row + count, Real{0});
      for (int64_t j = 0; shape_.normalised && j <= i; ++j) row[j] += sums_.data[i];
    }
    PackState(State(chunk));
    Product(count, features_, width_, douts.left(), scratch_.state_across.view(),
            kNothing, dqueries);
    Product(count, features_, count, dweights.left(), keys_.right(), dqueries,
            dqueries);
    Product(count, features_, count, dweights.transposed(), queries_.right(), kNothing,
            dkeys);
    if (shape_.delta) SolveBackward(rows, dwrites, dkeys, to);
    PackState(dstate);
    Product(count, features_, width_, writes_.left(), scratch_.state_across.view(),
            dkeys, dkeys);
    // dW0 = dW1 + dO^T Qf - Z^T Kf, the last term with the delta rule.
    Product(features_, width_, count, queries_.transposed(), douts.right(), dstate,
            dstate);
    if (shape_.delta) {
      const Matrix<Real> solved = Room(scratch_.solved, kDeltaChunk, width_);
      Product(features_, width_, count, keys_.transposed(), solved.right(), dstate,
              dstate);
    }
    if (shape_.normalised) NormaliserBackward(chunk, count, dqueries, dkeys, dsum);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t r = rows.begin + i;
      if (!shape_.delta) std::copy_n(dwrites.row(i), width_, to.dvalue.row(r));
      FeaturesBackward(shape_.map, width_, head_.key.row(r), keys_.row(i),
                       divisors_.row(0)[i], dkeys.row(i), to.dkey.row(r),
                       scratch_.roll.data());
      FeaturesBackward(shape_.map, width_, head_.query.row(r), queries_.row(i),
                       divisors_.row(1)[i], dqueries.row(i), to.dquery.row(r),
                       scratch_.roll.data());
    }
  }

  // A state as [K, N].
  void PackState(const Matrix<Real>& state) {
    scratch_.state_across.Reserve(width_, features_);
    scratch_.state_across.FillAll(state.data, 1, state.stride);
  }

  // Z = A^-T dX. `solved` becomes -b Z; adds to dKf what X got through A and errors.
  void SolveBackward(Part rows, const Matrix<Real>& dwrites, const Matrix<Real>& dkeys,
                     const DeltaGradients<Real>& to) {
    const int64_t count = rows.size();
    const Matrix<Real> solved = Room(scratch_.solved, kDeltaChunk, width_),
                       mixed = Room(scratch_.square[3], kDeltaChunk, kDeltaChunk);
    for (int64_t i = count; i-- > 0;) {
      Real* const z = dwrites.row(i);
      for (int64_t j = i + 1; j < count; ++j) {
        const Real factor = -Beta(rows.begin + j) * overlaps_.row(j)[i];
        AddScaled(width_, factor, dwrites.row(j), z, z);
      }
    }
    // M = strict(-Z X^T), then b M + (b M)^T.
    Product(count, count, width_, dwrites.left(), scratch_.writes_across.view(),
            kNothing, mixed);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t r = rows.begin + i;
      Real* const row = mixed.row(i);
      Real dbeta = DotProduct<Real>(width_, dwrites.row(i), errors_.row(i));
      for (int64_t j = 0; j < i; ++j) dbeta -= row[j] * overlaps_.row(i)[j];
      *to.dbeta.row(r) = dbeta;
      for (int64_t j = 0; j < i; ++j) {
        row[j] *= -Beta(r);
        mixed.row(j)[i] = row[j];
      }
      row[i] = 0;
      AddScaled<Real>(width_, Beta(r), dwrites.row(i), nullptr, to.dvalue.row(r));
      AddScaled<Real>(width_, -Beta(r), dwrites.row(i), nullptr, solved.row(i));
    }
    Product(count, features_, count, mixed.left(), keys_.right(), dkeys, dkeys);
    Product(count, features_, width_, solved.left(), scratch_.state_across.view(),
            dkeys, dkeys);
  }

  // Contribution of z: sums_ holds the gradients of z.phi(q).
  void NormaliserBackward(int64_t chunk, int64_t count, const Matrix<Real>& dqueries,
                          const Matrix<Real>& dkeys, Real* dsum) {
    for (int64_t i = 0; i < count; ++i) {
      AddScaled<Real>(features_, 1, dsum, dkeys.row(i), dkeys.row(i));
      AddScaled(features_, sums_.data[i], Sum(chunk), dqueries.row(i), dqueries.row(i));
    }
    for (int64_t i = 0; i < count; ++i) {
      AddScaled(features_, sums_.data[i], queries_.row(i), dsum, dsum);
    }
  }

  const DeltaHead<Real>& head_;
  const DeltaShape& shape_;
  DeltaScratch<Real>& scratch_;
  const int64_t width_, features_;
  // Per chunk: features, the divisors of DPFP, Kf Kf^T, lower(Qf Kf^T), X, V - Kf W0^T,
  // z.phi(q).
  const Matrix<Real> keys_, queries_, divisors_, overlaps_, weights_, writes_, errors_,
      sums_;
};

}  // namespace

int64_t DeltaShape::state_stride() const { return WholePanels(width); }

int64_t DeltaShape::state_size() const {
  return features() * state_stride() + (normalised ? WholePanels(features()) : 0);
}

template <class Real>
void DeltaForward(const DeltaHead<Real>& head, DeltaScratch<Real>& scratch) {
  Chunks<Real>(head, scratch).Forward();
}

template <class Real>
void DeltaBackward(const DeltaHead<Real>& head, const DeltaGradients<Real>& gradients,
                   DeltaScratch<Real>& scratch) {
  Chunks<Real>(head, scratch).Backward(gradients);
}

template void DeltaForward(const DeltaHead<float>&, DeltaScratch<float>&);
template void DeltaForward(const DeltaHead<double>&, DeltaScratch<double>&);
template void DeltaBackward(const DeltaHead<float>&, const DeltaGradients<float>&,
                            DeltaScratch<float>&);
template void DeltaBackward(const DeltaHead<double>&, const DeltaGradients<double>&,
                            DeltaScratch<double>&);

}  // namespace mnemon
