// SPDX-License-Identifier: MIT
// Compiled once per instruction set.
#include "model/compute/gradient/row_operations.h"

#include <algorithm>
#include <cmath>

#include "model/compute/functions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/compute/gradient/row_operations.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
//
#include <hwy/highway.h>

#include "model/compute/gradient/row_table.h"
#include "model/compute/gradient/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

// The first `count`; the rest is zero.
template <class Vector>
HWY_INLINE Vector FirstOf(const Vector& x, int64_t count) {
  if (count >= 16) return x;
  HWY_ALIGN decltype(Sum16(x)) all[16];
  Store16(x, all);
  return LoadSome16(all, count);
}

template <class Real>
HWY_INLINE auto GainOf(const NormPass<Real>& pass, int64_t i, int64_t left) {
  return Add(LoadSome16(pass.gain + i, left), Set16(pass.more));
}

template <class Real>
void NormForwardHere(const NormPass<Real>& pass, const RowsOfReal<Real>& z) {
  const int64_t width = pass.width;
  const Real count = static_cast<Real>(width);
  for (int64_t r = 0; r < pass.rows; ++r) {
    const Real* const x = pass.x.row(r);
    auto sum = Set16(Real{0});
    if (pass.centred) {
      ForSixteens<Real>(width, [&](int64_t i, int64_t left) {
        sum = Add(sum, LoadSome16(x + i, left));
      });
    }
    const Real mean = Sum16(sum) / count;
    const auto means = Set16(mean);
    auto squares = Set16(Real{0});
    ForSixteens<Real>(width, [&](int64_t i, int64_t left) {
      const auto away = Sub(LoadSome16(x + i, left), FirstOf(means, left));
      squares = Fma(away, away, squares);
    });
    const Real rstd = Real{1} / std::sqrt(Sum16(squares) / count + pass.eps);
    const auto factor = Set16(rstd);
    ForSixteens<Real>(width, [&](int64_t i, int64_t left) {
      const auto normal = Mul(Sub(LoadSome16(x + i, left), means), factor);
      if (pass.standard.data != nullptr) {
        StoreSome16(normal, pass.standard.row(r) + i, left);
      }
      const auto bias =
          pass.bias == nullptr ? Set16(Real{0}) : LoadSome16(pass.bias + i, left);
      StoreSome16(Fma(normal, GainOf(pass, i, left), bias), z.row(r) + i, left);
    });
    if (pass.moments == nullptr) continue;
    pass.moments[2 * r] = mean;
    pass.moments[2 * r + 1] = rstd;
  }
}

template <class Real>
void NormBackwardHere(const NormPass<Real>& pass, const RowsOfReal<const Real>& dz,
                      const RowsOfReal<const Real>& from, const RowsOfReal<Real>& dx) {
  const int64_t width = pass.width;
  const Real count = static_cast<Real>(width);
  for (int64_t r = 0; r < pass.rows; ++r) {
    const Real* const x = pass.x.row(r);
    const Real* const d = dz.row(r);
    const auto mean = Set16(pass.moments[2 * r]), rstd = Set16(pass.moments[2 * r + 1]);
    const auto gradient = [&](int64_t i, int64_t left) {
      return Mul(LoadSome16(d + i, left), GainOf(pass, i, left));
    };
    const auto normal = [&](int64_t i, int64_t left) {
      return Mul(Sub(LoadSome16(x + i, left), mean), rstd);
    };
    auto sum = Set16(Real{0}), along = Set16(Real{0});
    ForSixteens<Real>(width, [&](int64_t i, int64_t left) {
      const auto g = gradient(i, left);  // zero beyond the width
      sum = Add(sum, g);
      along = Fma(g, normal(i, left), along);
    });
    const auto mean_sum = Set16(pass.centred ? Sum16(sum) / count : Real{0});
    const auto mean_along = Set16(Sum16(along) / count);
    ForSixteens<Real>(width, [&](int64_t i, int64_t left) {
      const auto inner =
          Sub(Sub(gradient(i, left), mean_sum), Mul(normal(i, left), mean_along));
      auto out = Mul(inner, rstd);
      if (from.data != nullptr) out = Add(LoadSome16(from.row(r) + i, left), out);
      StoreSome16(out, dx.row(r) + i, left);
    });
  }
}

// kWide vectors of columns from `c` on: enough chains to hide the latency of an
// addition.
template <class Real, int kWide>
void AddSomeColumns(const ColumnSums<Real>& sums, const RowPieces& rows, int64_t c,
                    int64_t end) {
  Sixteen<Real> gain[kWide], bias[kWide];
  const auto flush = [&](Real* to, Sixteen<Real>* sum) {
    for (int w = 0; w < kWide; ++w) {
      const int64_t at = c + 16 * w, left = end - at;
      if (to != nullptr) {
        StoreSome16(Add(LoadSome16(to + at, left), sum[w]), to + at, left);
      }
      sum[w] = Set16(Real{0});
    }
  };
  for (int w = 0; w < kWide; ++w) gain[w] = bias[w] = Set16(Real{0});
  for (int64_t i = 0; i < rows.count; ++i) {
    const int64_t r = rows.at(i);
    const Real* const dz = sums.dz.row(r);
    if (sums.gain == nullptr) {
      for (int w = 0; w < kWide; ++w) {
        const int64_t at = c + 16 * w;
        bias[w] = Add(bias[w], LoadSome16(dz + at, end - at));
      }
    } else {
      const auto mean = Set16(sums.moments[2 * r]),
                 rstd = Set16(sums.moments[2 * r + 1]);
      for (int w = 0; w < kWide; ++w) {
        const int64_t at = c + 16 * w;
        const auto d = LoadSome16(dz + at, end - at);
        const auto away = Sub(LoadSome16(sums.x.row(r) + at, end - at), mean);
        bias[w] = Add(bias[w], d);
        gain[w] = Fma(d, Mul(away, rstd), gain[w]);
      }
    }
    if ((i + 1) % kSliceDepth == 0 || i + 1 == rows.count) {
      flush(sums.gain, gain);
      flush(sums.bias, bias);
    }
  }
}

template <class Real>
void AddColumnSumsHere(const ColumnSums<Real>& sums, const RowPieces& rows,
                       const Part& columns) {
  int64_t c = columns.begin;
  for (; c + 64 <= columns.end; c += 64) {
    AddSomeColumns<Real, 4>(sums, rows, c, columns.end);
  }
  for (; c < columns.end; c += 16) {
    AddSomeColumns<Real, 1>(sums, rows, c, columns.end);
  }
}

HWY_INLINE D16 Tanh16(const D16& x) {
  return Each([&](int i) { return std::tanh(x.v[i]); });
}
HWY_INLINE D16 Gelu16(const D16& x) {
  return Each([&](int i) { return 0.5 * x.v[i] * (1 + std::erf(x.v[i] * M_SQRT1_2)); });
}
// The derivative of x Phi(x): Phi(x) + x phi(x).
template <class Sixteen>
HWY_INLINE Sixteen GeluSlope16(const Sixteen& x) {
  using Real = decltype(Sum16(x));
  const Sixteen zero = Set16(Real{0}), one = Set16(Real{1});
  const Sixteen density = Mul(Set16(static_cast<Real>(0.3989422804014327)),
                              Exp16(Mul(Mul(x, x), Set16(static_cast<Real>(-0.5)))));
  // Phi(x) = gelu(x) / x away from 0, and 1/2 + x phi(0) near it.
  const Sixteen size = IfNegative(x, Sub(zero, x), x);
  const Sixteen near = Sub(size, Set16(static_cast<Real>(1e-3)));
  const Sixteen safe = IfNegative(near, one, x);
  const Sixteen below = IfNegative(near, Fma(x, density, Set16(static_cast<Real>(0.5))),
                                   Div(Gelu16(safe), safe));
  return Fma(x, density, below);
}

// Value and slope of an activation at x.
template <class Real>
class ActivationRow {
 public:
  explicit ActivationRow(Activation act) : act_(act) {}

  HWY_INLINE Sixteen<Real> Of(const Sixteen<Real>& x) const {
    if (act_ == Activation::kSigmoid) return Sigmoid16(x);
    if (act_ == Activation::kTanh) return Tanh16(x);
    if (act_ == Activation::kGelu) return Gelu16(x);
    if (act_ == Activation::kRelu) return IfNegative(x, Set16(Real{0}), x);
    return Mul(x, Gate(x));
  }

  HWY_INLINE Sixteen<Real> Slope(const Sixteen<Real>& x) const {
    const auto zero = Set16(Real{0}), one = Set16(Real{1});
    if (act_ == Activation::kSigmoid) {
      const auto y = Sigmoid16(x);
      return Mul(y, Sub(one, y));
    }
    if (act_ == Activation::kTanh) {
      const auto y = Tanh16(x);
      return Sub(one, Mul(y, y));
    }
    if (act_ == Activation::kGelu) return GeluSlope16(x);
    if (act_ == Activation::kRelu) return IfNegative(Sub(zero, x), one, zero);
    const auto gate = Gate(x);
    const auto inner = Fma(Mul(x, x), Set16(3 * cubic()), Set16(linear()));
    return Fma(Mul(Mul(x, inner), Sub(one, gate)), gate, gate);
  }

 private:
  // sigmoid(x (linear + cubic x^2))
  Sixteen<Real> Gate(const Sixteen<Real>& x) const {
    return Sigmoid16(Mul(x, Fma(Mul(x, x), Set16(cubic()), Set16(linear()))));
  }
  Real linear() const {
    return act_ == Activation::kSilu ? Real{1} : static_cast<Real>(kGeluLinear);
  }
  Real cubic() const {
    return act_ == Activation::kSilu ? Real{0} : static_cast<Real>(kGeluCubic);
  }

  const Activation act_;
};

template <class Real>
void HiddenForwardHere(Hidden kind, int64_t width, const Real* a, const Real* factor,
                       Real* h) {
  const ActivationRow<Real> act(kind.act);
  ForSixteens<Real>(width, [&](int64_t i, int64_t left) {
    auto out = act.Of(LoadSome16(a + i, left));
    if (kind.gated) out = Mul(out, LoadSome16(factor + i, left));
    StoreSome16(out, h + i, left);
  });
}

template <class Real>
void HiddenBackwardHere(Hidden kind, int64_t width, const Real* dh, Real* a,
                        Real* factor) {
  const ActivationRow<Real> act(kind.act);
  ForSixteens<Real>(width, [&](int64_t i, int64_t left) {
    const auto x = LoadSome16(a + i, left);
    auto d = LoadSome16(dh + i, left);
    const auto slope = act.Slope(x);
    if (kind.gated) {
      const auto dfactor = Mul(d, act.Of(x));
      d = Mul(d, LoadSome16(factor + i, left));
      StoreSome16(dfactor, factor + i, left);
    }
    StoreSome16(Mul(d, slope), a + i, left);
  });
}

template <class Real>
void ReluBackwardHere(int64_t width, const Real* h, Real* dh) {
  const auto zero = Set16(Real{0});
  ForSixteens<Real>(width, [&](int64_t i, int64_t left) {
    const auto x = LoadSome16(h + i, left);
    StoreSome16(IfNegative(Sub(zero, x), LoadSome16(dh + i, left), zero), dh + i, left);
  });
}

template <class Real>
void AddScaledHere(int64_t width, Real scale, const Real* a, const Real* b, Real* to) {
  const auto factor = Set16(scale);
  ForSixteens<Real>(width, [&](int64_t i, int64_t left) {
    const auto scaled = Mul(factor, LoadSome16(a + i, left));
    StoreSome16(b == nullptr ? scaled : Add(scaled, LoadSome16(b + i, left)), to + i,
                left);
  });
}

HWY_INLINE D16 Widened(const float* from, int64_t left, const D16*) {
  return Each([&](int i) { return i < left ? from[i] : 0.0; });
}
HWY_INLINE V16 Widened(const float* from, int64_t left, const V16*) {
  return LoadSome16(from, left);
}

template <class Real>
void MultiplyByHere(int64_t width, const Real* from, const float* factors, Real* to) {
  ForSixteens<Real>(width, [&](int64_t i, int64_t left) {
    const auto x = LoadSome16(from + i, left);
    StoreSome16(Mul(x, Widened(factors + i, left, &x)), to + i, left);
  });
}

template <class Real>
double CrossEntropyHere(int64_t width, int64_t target, Real* logits, bool* best) {
  Real most = logits[0];
  for (int64_t i = 1; i < width; ++i) most = std::max(most, logits[i]);
  const Real wanted = logits[target];
  *best = wanted == most;
  const auto shift = Set16(most);
  auto sum = Set16(Real{0});
  ForSixteens<Real>(width, [&](int64_t i, int64_t left) {
    const auto e = Exp16(Sub(LoadSome16(logits + i, left), shift));
    StoreSome16(e, logits + i, left);
    sum = Add(sum, LoadSome16(logits + i, left));
  });
  const Real total = Sum16(sum);
  AddScaledHere<Real>(width, Real{1} / total, logits, nullptr, logits);
  logits[target] -= Real{1};
  if (!(total > 0 && total < HUGE_VAL)) return NAN;
  return double{most} - double{wanted} + numerics::Log(double{total});
}

template <class Real>
Real DotProductHere(int64_t width, const Real* a, const Real* b) {
  auto sum = Set16(Real{0});
  ForSixteens<Real>(width, [&](int64_t i, int64_t left) {
    sum = Fma(LoadSome16(a + i, left), LoadSome16(b + i, left), sum);
  });
  return Sum16(sum);
}

// A score so low that its exponential is 0.
template <class Real>
constexpr Real kNever = Real{-1e30};

// Scales the scores of a row in place; those that are not seen become kNever.
template <class Real>
void ScaleScores(const SoftmaxRow<Real>& row) {
  const auto scale = Set16(row.scale);
  HWY_ALIGN Real steps[16];
  for (int i = 0; i < 16; ++i) steps[i] = static_cast<Real>(i);
  const auto step = Load16(steps);
  for (int64_t j = 0; j < row.keys; j += 16) {
    auto s = Load16(row.scores + j);
    if (row.relative != nullptr) s = Add(s, Load16(row.relative + j));
    s = Mul(s, scale);
    if (row.slope != 0) {
      const auto away =
          Add(Set16(static_cast<Real>(j - row.query)), step);  // minus the distance
      const auto distance = IfNegative(away, away, Sub(Set16(Real{0}), away));
      s = Fma(Set16(row.slope), distance, s);
    }
    if (row.cap > 0) {
      const auto capped = Tanh16(Mul(s, Set16(Real{1} / row.cap)));
      s = Mul(Set16(row.cap), capped);
      if (row.slopes != nullptr) {
        Store16(Sub(Set16(Real{1}), Mul(capped, capped)), row.slopes + j);
      }
    }
    Store16(s, row.scores + j);
  }
  std::fill(row.scores, row.scores + row.first, kNever<Real>);
  const int64_t whole = (row.keys + 15) / 16 * 16;
  std::fill(row.scores + row.end, row.scores + whole, kNever<Real>);
}

template <class Real>
SoftmaxMoments<Real> SoftmaxHere(const SoftmaxRow<Real>& row) {
  ScaleScores(row);
  auto mosts = Set16(kNever<Real>);
  for (int64_t j = 0; j < row.keys; j += 16) {
    mosts = Max(mosts, Load16(row.scores + j));
  }
  const Real most = Max16(mosts);
  const auto shift = Set16(most);
  auto sum = Set16(Real{0});
  for (int64_t j = 0; j < row.keys; j += 16) {
    const auto e = Exp16(Sub(Load16(row.scores + j), shift));
    Store16(e, row.scores + j);
    sum = Add(sum, e);
  }
  const Real inverse = Real{1} / Sum16(sum);
  const auto factor = Set16(inverse);
  for (int64_t j = 0; j < row.keys; j += 16) {
    Store16(Mul(Load16(row.scores + j), factor), row.scores + j);
  }
  return {most, inverse};
}

template <class Real>
void SoftmaxAgainHere(const SoftmaxRow<Real>& row,
                      const SoftmaxMoments<Real>& moments) {
  ScaleScores(row);
  const auto shift = Set16(moments.most), factor = Set16(moments.inverse);
  for (int64_t j = 0; j < row.keys; j += 16) {
    const auto e = Exp16(Sub(Load16(row.scores + j), shift));
    Store16(Mul(e, factor), row.scores + j);
  }
}

template <class Real>
void SoftmaxBackwardHere(int64_t keys, const Real* weights, Real delta, Real scale,
                         const Real* slopes, Real* dweights) {
  const auto deltas = Set16(delta), scales = Set16(scale);
  for (int64_t j = 0; j < keys; j += 16) {
    const auto d = Sub(Load16(dweights + j), deltas);
    auto dscores = Mul(Mul(d, scales), Load16(weights + j));
    if (slopes != nullptr) dscores = Mul(dscores, Load16(slopes + j));
    Store16(dscores, dweights + j);
  }
}

template <class Real>
constexpr RowTable<Real> kTable = {
    .norm_forward = NormForwardHere<Real>,
    .norm_backward = NormBackwardHere<Real>,
    .add_column_sums = AddColumnSumsHere<Real>,
    .hidden_forward = HiddenForwardHere<Real>,
    .hidden_backward = HiddenBackwardHere<Real>,
    .relu_backward = ReluBackwardHere<Real>,
    .add_scaled = AddScaledHere<Real>,
    .multiply_by = MultiplyByHere<Real>,
    .cross_entropy = CrossEntropyHere<Real>,
    .dot_product = DotProductHere<Real>,
    .softmax = SoftmaxHere<Real>,
    .softmax_again = SoftmaxAgainHere<Real>,
    .softmax_backward = SoftmaxBackwardHere<Real>,
};

const RowTable<float>* FloatTable() { return &kTable<float>; }
const RowTable<double>* DoubleTable() { return &kTable<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mnemon {
namespace {

HWY_EXPORT(FloatTable);
HWY_EXPORT(DoubleTable);

template <class Real>
const RowTable<Real>& Table() {
  if constexpr (std::is_same_v<Real, float>) {
    return *HWY_DYNAMIC_DISPATCH(FloatTable)();
  } else {
    return *HWY_DYNAMIC_DISPATCH(DoubleTable)();
  }
}

}  // namespace

template <class Real>
void NormForward(const NormPass<Real>& pass, RowsOfReal<Real> z) {
  Table<Real>().norm_forward(pass, z);
}
template <class Real>
void NormBackward(const NormPass<Real>& pass, RowsOfReal<const Real> dz,
                  RowsOfReal<const Real> from, RowsOfReal<Real> dx) {
  Table<Real>().norm_backward(pass, dz, from, dx);
}
template <class Real>
void AddColumnSums(const ColumnSums<Real>& sums, const RowPieces& rows, Part columns) {
  Table<Real>().add_column_sums(sums, rows, columns);
}
template <class Real>
void HiddenForward(Hidden kind, int64_t width, const Real* a, const Real* factor,
                   Real* h) {
  Table<Real>().hidden_forward(kind, width, a, factor, h);
}
template <class Real>
void HiddenBackward(Hidden kind, int64_t width, const Real* dh, Real* a, Real* factor) {
  Table<Real>().hidden_backward(kind, width, dh, a, factor);
}
template <class Real>
void ReluBackward(int64_t width, const Real* h, Real* dh) {
  Table<Real>().relu_backward(width, h, dh);
}
template <class Real>
void AddScaled(int64_t width, Real scale, const Real* a, const Real* b, Real* to) {
  Table<Real>().add_scaled(width, scale, a, b, to);
}
template <class Real>
void MultiplyBy(int64_t width, const Real* from, const float* factors, Real* to) {
  Table<Real>().multiply_by(width, from, factors, to);
}
template <class Real>
double CrossEntropy(int64_t width, int64_t target, Real* logits, bool* best) {
  return Table<Real>().cross_entropy(width, target, logits, best);
}
template <class Real>
Real DotProduct(int64_t width, const Real* a, const Real* b) {
  return Table<Real>().dot_product(width, a, b);
}
template <class Real>
SoftmaxMoments<Real> Softmax(const SoftmaxRow<Real>& row) {
  return Table<Real>().softmax(row);
}
template <class Real>
void SoftmaxAgain(const SoftmaxRow<Real>& row, const SoftmaxMoments<Real>& moments) {
  Table<Real>().softmax_again(row, moments);
}
template <class Real>
void SoftmaxBackward(int64_t keys, const Real* weights, Real delta, Real scale,
                     const Real* slopes, Real* dweights) {
  Table<Real>().softmax_backward(keys, weights, delta, scale, slopes, dweights);
}

template void NormForward(const NormPass<float>& pass, RowsOfReal<float> z);
template void NormForward(const NormPass<double>& pass, RowsOfReal<double> z);
template void NormBackward(const NormPass<float>& pass, RowsOfReal<const float> dz,
                           RowsOfReal<const float> from, RowsOfReal<float> dx);
template void NormBackward(const NormPass<double>& pass, RowsOfReal<const double> dz,
                           RowsOfReal<const double> from, RowsOfReal<double> dx);
template void AddColumnSums(const ColumnSums<float>& sums, const RowPieces& rows,
                            Part columns);
template void AddColumnSums(const ColumnSums<double>& sums, const RowPieces& rows,
                            Part columns);
template void HiddenForward(Hidden kind, int64_t width, const float* a,
                            const float* factor, float* h);
template void HiddenForward(Hidden kind, int64_t width, const double* a,
                            const double* factor, double* h);
template void HiddenBackward(Hidden kind, int64_t width, const float* dh, float* a,
                             float* factor);
template void HiddenBackward(Hidden kind, int64_t width, const double* dh, double* a,
                             double* factor);
template void ReluBackward(int64_t width, const float* h, float* dh);
template void ReluBackward(int64_t width, const double* h, double* dh);
template void AddScaled(int64_t width, float scale, const float* a, const float* b,
                        float* to);
template void AddScaled(int64_t width, double scale, const double* a, const double* b,
                        double* to);
template void MultiplyBy(int64_t width, const float* from, const float* factors,
                         float* to);
template void MultiplyBy(int64_t width, const double* from, const float* factors,
                         double* to);
template double CrossEntropy(int64_t width, int64_t target, float* logits, bool* best);
template double CrossEntropy(int64_t width, int64_t target, double* logits, bool* best);
template float DotProduct(int64_t width, const float* a, const float* b);
template double DotProduct(int64_t width, const double* a, const double* b);
template SoftmaxMoments<float> Softmax(const SoftmaxRow<float>& row);
template SoftmaxMoments<double> Softmax(const SoftmaxRow<double>& row);
template void SoftmaxAgain(const SoftmaxRow<float>& row,
                           const SoftmaxMoments<float>& moments);
template void SoftmaxAgain(const SoftmaxRow<double>& row,
                           const SoftmaxMoments<double>& moments);
template void SoftmaxBackward(int64_t keys, const float* weights, float delta,
                              float scale, const float* slopes, float* dweights);
template void SoftmaxBackward(int64_t keys, const double* weights, double delta,
                              double scale, const double* slopes, double* dweights);

}  // namespace mnemon
#endif
