// SPDX-License-Identifier: MIT
// Direct implementation of the equations, not vectorised by hand; sums have the order
// of kernels.h for matrices and norms only.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "model/blocks/attention/kernels/step_reference.h"
#include "model/blocks/fast_weights/step_reference.h"
#include "model/compute/reference_sums.h"
#include "model/operations/cpu_operations.h"

namespace mnemon {
namespace {

using namespace reference;  // NOLINT

// Weight of input k of slice s.
float Weight(const MatrixView& matrix, int64_t n, int64_t s, int64_t k) {
  const void* const at = static_cast<const char*>(matrix.panels) +
                         n / kPanel * matrix.panel_bytes + s * matrix.slice_bytes;
  const int64_t output = n % kPanel;
  if (matrix.format == WeightFormat::kFp32) {
    return static_cast<const float*>(at)[k * kPanel + output];
  }
  const uint32_t both = static_cast<const uint32_t*>(at)[k / 2 * kPanel + output];
  const uint32_t bits = k % 2 == 0 ? both << 16 : both & 0xFFFF0000u;
  float value;
  std::copy_n(reinterpret_cast<const char*>(&bits), sizeof(bits),
              reinterpret_cast<char*>(&value));
  return value;
}

// The inputs of slice s.
std::span<const float> SliceOf(const MatrixView& matrix, const float* in, int64_t s) {
  const int64_t begin = s * matrix.slice;
  return {in + begin,
          static_cast<size_t>(std::min(matrix.slice, matrix.inputs - begin))};
}

// Scale of some inputs as int8; 0 if all become zeros.
float Int8Scale(std::span<const float> in) {
  float most = 0;
  for (const float x : in) {
    if (!std::isfinite(x)) return std::numeric_limits<float>::quiet_NaN();
    most = std::max(most, std::abs(x));
  }
  return most < kSmallest ? 0.0f : most / 127.0f;
}

int64_t Int8Sum(const MatrixView& matrix, std::span<const float> in, int64_t n,
                int64_t s) {
  float most = 0;
  for (const float x : in) most = std::max(most, std::abs(x));
  if (!(Int8Scale(in) > 0)) return 0;
  const auto* const at = static_cast<const uint8_t*>(matrix.panels) +
                         n / kPanel * matrix.panel_bytes + s * matrix.slice_bytes;
  const float inverse = 127.0f / most;
  int64_t sum = 0;
  for (size_t k = 0; k < in.size(); ++k) {
    const int w = at[k / 4 * 4 * kPanel + n % kPanel * 4 + k % 4] - 128;
    sum += std::lrint(in[k] * inverse) * w;
  }
  return sum;
}

// One part; in int8 not scaled yet.
float SliceSum(const MatrixView& matrix, const float* row, int64_t n, int64_t s) {
  const std::span<const float> in = SliceOf(matrix, row, s);
  if (matrix.format == WeightFormat::kInt8) {
    return static_cast<float>(Int8Sum(matrix, in, n, s));
  }
  float sum = 0;
  for (size_t k = 0; k < in.size(); ++k) {
    sum = std::fma(in[k], Weight(matrix, n, s, static_cast<int64_t>(k)), sum);
  }
  return sum;
}

// Sum of some slices, upward.
float Total(const MatrixView& matrix, const float* row, int64_t n, Part slices) {
  float total = 0;
  for (int64_t s = slices.begin; s < slices.end; ++s) {
    const float sum = SliceSum(matrix, row, n, s);
    if (matrix.format == WeightFormat::kInt8) {
      const float scale = Int8Scale(SliceOf(matrix, row, s)) * matrix.scales[n];
      total = std::fma(sum, scale, total);
    } else {
      total = s == slices.begin ? sum : total + sum;
    }
  }
  return total;
}

float Product(const MatrixView& matrix, const float* in, int64_t n) {
  const float total = Total(matrix, in, n, {0, matrix.slices()});
  return matrix.bias == nullptr ? total : total + matrix.bias[n];
}

bool SeesNothing(const KeyRange* key_ranges, int64_t row) {
  return key_ranges != nullptr && key_ranges[row].first > key_ranges[row].last;
}

float Activate(float x, Act act) {
  switch (act) {
    case Act::kNone:
      return x;
    case Act::kRelu:
      return std::max(x, 0.0f);
    case Act::kGelu:
      return 0.5f * x * (1.0f + std::erf(x * 0.70710678118654752f));
    case Act::kSigmoid:
      return 1.0f / (1.0f + std::exp(-x));
    case Act::kGeluTanh:
      return 0.5f * x *
             (1.0f + std::tanh(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    case Act::kSilu:
      return x / (1.0f + std::exp(-x));
    case Act::kTanh:
      return std::tanh(x);
  }
  return x;
}

float Position(const EmbedCall& call, int64_t row, int64_t i) {
  if (call.learned != nullptr) {
    return call.learned[call.positions[row] * call.width + i];
  }
  const AngleView& view = call.sinusoid;
  if (view.coarse == nullptr) return 0;
  const int64_t pair = i / 2 * 2;
  const double* const a =
      view.coarse + call.positions[row] / view.stride * view.turns + pair;
  const double* const b =
      view.fine + call.positions[row] % view.stride * view.turns + pair;
  return static_cast<float>(i % 2 == 0 ? a[0] * b[1] + a[1] * b[0]
                                       : a[1] * b[1] - a[0] * b[0]);
}

void Embed(const EmbedCall& call, Share share) {
  for (int64_t r = share.begin(call.rows); r < share.end(call.rows); ++r) {
    for (int64_t i = 0; i < call.width; ++i) {
      const float x =
          call.scale * (call.tied != nullptr
                            ? Weight(*call.tied, call.ids[r], i / call.tied->slice,
                                     i % call.tied->slice)
                            : call.table[int64_t{call.ids[r]} * call.width + i]);
      call.out.row(r)[i] = x + Position(call, r, i);
    }
  }
}

void Linear(const LinearCall& call, Share share, float* scratch) {
  const int64_t panels = call.weights.panel_count();
  const int64_t begin = share.begin(panels) * kPanel;
  const int64_t end = std::min(share.end(panels) * kPanel, call.weights.outputs);
  for (int64_t r = 0; r < call.rows; ++r) {
    const float* in = call.in.row(call.pick == nullptr ? r : call.pick[r]);
    if (SeesNothing(call.key_ranges, r)) {
      for (int64_t n = begin; n < end; ++n)
        call.out.row(r)[n] = call.residual.row(r)[n];
      continue;
    }
    if (call.norm.gain != nullptr) {
      NormRow(in, call.weights.inputs, call.norm, scratch);
      in = scratch;
    }
    for (int64_t n = begin; n < end; ++n) {
      float y = Activate(Product(call.weights, in, n), call.act);
      if (call.gate != nullptr) y *= Product(*call.gate, in, n);
      y *= call.scale;
      if (call.cap > 0) y = call.cap * std::tanh(y);
      if (call.residual.data != nullptr) y += call.residual.row(r)[n];
      call.out.row(r)[n] = y;
    }
  }
}

void Parts(const PartsCall& call, Share share, float* /*scratch*/) {
  const int64_t panels = call.weights.panel_count();
  const int64_t begin = share.begin(panels) * kPanel;
  const int64_t end = std::min(share.end(panels) * kPanel, call.weights.outputs);
  for (int64_t r = 0; r < call.rows; ++r) {
    const float* const in = call.in.row(r);
    for (int64_t n = begin; n < end; ++n) {
      if (!call.each) {
        call.out.row(r)[n] = Total(call.weights, in, n, call.slices);
        continue;
      }
      for (int64_t s = call.slices.begin; s < call.slices.end; ++s) {
        const int64_t part = s - call.slices.begin;
        call.out.row(r)[part * call.part_stride + n] = SliceSum(call.weights, in, n, s);
      }
    }
    const bool scaled =
        call.each && share.index == 0 && call.weights.format == WeightFormat::kInt8;
    for (int64_t s = call.slices.begin; scaled && s < call.slices.end; ++s) {
      call.scales.row(r)[s - call.slices.begin] =
          Int8Scale(SliceOf(call.weights, in, s));
    }
  }
}

void Fold(const FoldCall& call, Share share) {
  for (int64_t r = share.begin(call.rows); r < share.end(call.rows); ++r) {
    for (int64_t i = 0; i < call.width; ++i) {
      float sum = call.in.row(r)[i];
      for (int64_t p = 1; p < call.parts; ++p) {
        const float part = call.in.row(r)[p * call.part_stride + i];
        if (call.scales == nullptr) {
          sum += part;
        } else {
          sum = std::fma(part, call.part_scales.row(r)[p - 1] * call.scales[i], sum);
        }
      }
      if (call.bias != nullptr) sum += call.bias[i];
      const float before = call.residual.row(r)[i];
      call.out.row(r)[i] =
          SeesNothing(call.key_ranges, r) ? before : before + call.scale * sum;
    }
  }
}

void Mix(const MixCall& call, Share share) {
  for (int64_t r = share.begin(call.rows); r < share.end(call.rows); ++r) {
    for (int64_t i = 0; i < call.width; ++i) {
      float sum = 0;
      for (int64_t l = 0; l < call.layers; ++l) {
        sum = std::fma(call.weights[l], call.in.row(r)[l * call.layer_stride + i], sum);
      }
      call.out.row(r)[i] = sum;
    }
  }
}

void Norm(const NormCall& call, Share share) {
  for (int64_t r = share.begin(call.rows); r < share.end(call.rows); ++r) {
    const bool added = call.residual.data != nullptr;
    float* const normed = added ? call.room.row(r) : call.out.row(r);
    NormRow(call.in.row(r), call.width, call.norm, normed);
    for (int64_t i = 0; i < call.width; ++i) {
      const float x = Activate(normed[i], call.act);
      call.out.row(r)[i] = added ? call.residual.row(r)[i] + call.scale * x : x;
    }
  }
}

void Softmax(const SoftmaxCall& call, Share share) {
  for (int64_t r = share.begin(call.rows); r < share.end(call.rows); ++r) {
    float* const row = call.scores.row(r);
    const int64_t query = call.query + r;
    const auto takes_part = [&](int64_t j) {
      return (!call.causal || j <= query) &&
             (call.mask == nullptr || call.mask[r * call.keys + j] != 0);
    };
    float most = -HUGE_VALF;
    for (int64_t j = 0; j < call.keys; ++j) {
      const auto distance = static_cast<float>(std::abs(query - j));
      row[j] = takes_part(j) ? std::fma(-call.slope, distance, row[j] * call.scale)
                             : -HUGE_VALF;
      most = std::max(most, row[j]);
    }
    if (most == -HUGE_VALF) {
      std::fill_n(row, call.keys, 0.0f);
      continue;
    }
    for (int64_t j = 0; j < call.keys; ++j) row[j] = std::exp(row[j] - most);
    const float total = Sum(call.keys, [&](int64_t j, float s) { return s + row[j]; });
    for (int64_t j = 0; j < call.keys; ++j) row[j] /= total;
  }
}

constexpr CpuOperations kReference = {"reference", "plain", Embed,  Linear, Parts,
                                      Fold,        Turn,    Append, Attend, FastWeights,
                                      Mix,         Norm,    Softmax};

}  // namespace

const CpuOperations& ReferenceOperations() { return kReference; }

bool IsReference(const CpuOperations& operations) {
  return operations.linear == kReference.linear;
}

}  // namespace mnemon
