// SPDX-License-Identifier: MIT
// The operations of steps, compiled once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/operations/simd_operations.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
//
#include <algorithm>
#include <bit>
#include <vector>

#include <hwy/highway.h>

#include "model/blocks/attention/kernels/append_simd-inl.h"
#include "model/blocks/attention/kernels/attend_simd-inl.h"
#include "model/blocks/attention/kernels/turn_simd-inl.h"
#include "model/blocks/fast_weights/step_simd-inl.h"
#include "model/compute/each_target.h"
#include "model/compute/simd_int8-inl.h"
#include "model/compute/simd_linear-inl.h"
#include "model/compute/simd_softmax-inl.h"
#include "model/compute/vector16-inl.h"
#include "model/operations/cpu_operations.h"
#include "model/operations/simd_operations.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

// Inputs i .. i+15 of output n of a matrix packed as floats; no slice may begin between
// them.
HWY_INLINE V16 LoadUnpacked16(const MatrixView& matrix, int64_t n, int64_t i) {
  const char* const slice = static_cast<const char*>(matrix.panels) +
                            n / kPanel * matrix.panel_bytes +
                            i / matrix.slice * matrix.slice_bytes;
  const int64_t first = i % matrix.slice;
  const int64_t count = std::min<int64_t>(16, matrix.inputs - i);
  HWY_ALIGN float lane[16] = {};
  if (matrix.format == WeightFormat::kBf16) {
    const auto* const from =
        reinterpret_cast<const uint32_t*>(slice) + first / 2 * kPanel + n % kPanel;
    for (int64_t k = 0; k < count; ++k) {
      const uint32_t both = from[k / 2 * kPanel];
      lane[k] = std::bit_cast<float>(k % 2 == 0 ? both << 16 : both & 0xFFFF0000u);
    }
  } else {
    const float* const from =
        reinterpret_cast<const float*>(slice) + first * kPanel + n % kPanel;
    for (int64_t k = 0; k < count; ++k) lane[k] = from[k * kPanel];
  }
  return Load16(lane);
}

// Numbers i .. i+15 of a position's sinusoids.
HWY_INLINE V16 Sinusoids16(const AngleView& view, int64_t position, int64_t i) {
  const double* const a = view.coarse + position / view.stride * view.turns + i;
  const double* const b = view.fine + position % view.stride * view.turns + i;
  const int64_t count = std::min<int64_t>(16, view.turns - i);
  HWY_ALIGN float lane[16] = {};
  for (int64_t k = 0; k < count; k += 2) {
    lane[k] = static_cast<float>(a[k] * b[k + 1] + a[k + 1] * b[k]);
    lane[k + 1] = static_cast<float>(a[k + 1] * b[k + 1] - a[k] * b[k]);
  }
  return Load16(lane);
}

void Embed(const EmbedCall& call, Share share) {
  const V16 scale = Set16(call.scale);
  for (int64_t r = share.begin(call.rows); r < share.end(call.rows); ++r) {
    for (int64_t i = 0; i < call.width; i += 16) {
      const int64_t left = call.width - i;
      const int64_t id = call.ids[r];
      const V16 row = call.tied != nullptr
                          ? LoadUnpacked16(*call.tied, id, i)
                          : LoadSome16(call.table + id * call.width + i, left);
      V16 x = Mul(row, scale);
      if (call.learned != nullptr) {
        x = Add(x, LoadSome16(call.learned + call.positions[r] * call.width + i, left));
      } else if (call.sinusoid.coarse != nullptr) {
        x = Add(x, Sinusoids16(call.sinusoid, call.positions[r], i));
      }
      StoreSome16(Flush(x), call.out.row(r) + i, left);
    }
  }
}

void Mix(const MixCall& call, Share share) {
  const int64_t parts = (call.width + 15) / 16;
  const int64_t units = call.rows * parts;
  for (int64_t unit = share.begin(units); unit < share.end(units); ++unit) {
    const int64_t r = unit / parts, i = unit % parts * 16, left = call.width - i;
    V16 sum = Zero16();
    const float* in = call.in.row(r) + i;
    for (int64_t l = 0; l < call.layers; ++l) {
      sum = Fma(Set16(call.weights[l]), LoadSome16(in + l * call.layer_stride, left),
                sum);
    }
    StoreSome16(Flush(sum), call.out.row(r) + i, left);
  }
}

// Names in user interfaces.
constexpr const char* kName = HWY_TARGET == HWY_AVX2   ? "avx2"
                              : HWY_TARGET == HWY_AVX3 ? "avx512"
                                                       : "portable";

template <const Int8Kernels& kInt8>
CpuOperations OperationsWith() {
  return {kName,  kInt8.name, Embed,       Linear<kInt8>, Parts<kInt8>, Fold,   Turn,
          Append, Attend,     FastWeights, Mix,           Norm,         Softmax};
}

void AddOperations(std::vector<CpuOperations>& found) {
#if MNEMON_INT8_VNNI
  if (HasVnni()) found.push_back(OperationsWith<kVnniInt8>());
#endif
  found.push_back(OperationsWith<kAnyInt8>());
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mnemon {

HWY_EXPORT(AddOperations);

std::vector<CpuOperations> SimdOperations() {
  std::vector<CpuOperations> found;
  ForEachTarget([&] { HWY_DYNAMIC_DISPATCH(AddOperations)(found); });
  return found;
}

}  // namespace mnemon
#endif
