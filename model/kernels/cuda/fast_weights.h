// SPDX-License-Identifier: MIT
// FastWeights of kernels.h on a device. All threads of a block call it; the block is
// the share's worker. A warp computes one head of one run, token by token; each lane
// has columns of W^T of its own. C++17.
#pragma once

#include "model/kernels/cuda/numbers.h"

namespace mnemon::device {

// Shared memory of a warp: the features of key and query, and x'.
inline constexpr int64_t FastWeightWarpFloats(const FastWeightCall& call) {
  return 2 * (2 * call.nu * call.width) + 2 * call.width;
}
inline constexpr int64_t FastWeightFloats(const FastWeightCall& call, int threads) {
  return threads / kWarp * FastWeightWarpFloats(call);
}

// phi(x) [2 nu K] of x [K], by a warp: p(i, j) = x'_j x'_{(j-i) mod 2K}, divided by its
// sum.
MNEMON_DEVICE void Features(const float* x, int64_t width, int64_t nu, float* halves,
                            float* out) {
  const int64_t wide = 2 * width;
  for (int64_t j = Lane(); j < width; j += kWarp) {
    const float plus = x[j], minus = 0.0f - plus;
    halves[j] = plus < 0.0f ? 0.0f : plus;
    halves[width + j] = minus < 0.0f ? 0.0f : minus;
  }
  WarpBarrier();
  const auto product = [&](int64_t i, int64_t j) {
    return halves[j] * halves[(j - i % wide + wide) % wide];
  };
  float part = 0;
  for (int64_t i = 1; i <= nu; ++i) {
    for (int64_t j = Lane() % 16; j < wide; j += 16) part += product(i, j);
  }
  const float scale = Divide(1.0f, HalfSum(part) + 1e-6f);
  for (int64_t n = Lane(); n < nu * wide; n += kWarp) {
    out[n] = Flushed(product(n / wide + 1, n % wide) * scale);
  }
  WarpBarrier();
}

class FastWeightUnit {
 public:
  MNEMON_DEVICE FastWeightUnit(const FastWeightCall& call, const FastWeightRun& run,
                               int64_t head, float* shared)
      : call_(call),
        head_(head),
        features_(2 * call.nu * call.width),
        state_(run.fixed + call.state_offset + head * features_ * call.width),
        normaliser_(call.normaliser_offset < 0
                        ? nullptr
                        : run.fixed + call.normaliser_offset + head * features_),
        key_(shared),
        query_(shared + features_),
        halves_(shared + 2 * features_) {}

  // One token, by a warp. NaN where it leaves the state not finite.
  MNEMON_DEVICE float Add(int64_t row) {
    const int64_t from = head_ * call_.head_stride;
    Features(call_.key.row(row) + from, call_.width, call_.nu, halves_, key_);
    Features(call_.query.row(row) + from, call_.width, call_.nu, halves_, query_);
    const float key_query = Dot(key_, query_);
    // A feature that is not finite is NaN, and its product with any other too.
    float doubt = NotFinite(key_query);
    const float* const value = call_.value.row(row) + from;
    float* const out = call_.out.row(row) + head_ * call_.width;
    for (int64_t i = Lane(); i < call_.width; i += kWarp) {
      float* const column = state_ + i;
      float old_even = 0, old_odd = 0, read_even = 0, read_odd = 0;
      for (int64_t n = 0; n < features_; n += 2) {
        const float even = column[n * call_.width];
        const float odd = column[(n + 1) * call_.width];
        old_even = Fma(key_[n], even, old_even);
        read_even = Fma(query_[n], even, read_even);
        old_odd = Fma(key_[n + 1], odd, old_odd);
        read_odd = Fma(query_[n + 1], odd, read_odd);
      }
      float change = value[i];
      if (call_.beta.data != nullptr)
        change = call_.beta.row(row)[head_] * (change - (old_even + old_odd));
      doubt += NotFinite(change * kMostChange);
      // W_new phi(q) = W phi(q) + change (phi(k).phi(q))
      out[i] = Flushed(Fma(change, key_query, read_even + read_odd));
      for (int64_t n = 0; n < features_; ++n) {
        float* const at = column + n * call_.width;
        *at = Flushed(Fma(change, key_[n], *at));
      }
    }
    if (normaliser_ != nullptr) Normalise(out);
    WarpBarrier();  // the next token's features take the place of these
    return doubt;
  }

 private:
  MNEMON_DEVICE float Dot(const float* a, const float* b) const {
    return HalfSumOf(features_,
                     [&](int64_t n, float sum) { return Fma(a[n], b[n], sum); });
  }

  MNEMON_DEVICE void Normalise(float* out) {
    for (int64_t n = Lane(); n < features_; n += kWarp) {
      normaliser_[n] = Flushed(normaliser_[n] + key_[n]);
    }
    WarpBarrier();
    const float scale = Divide(1.0f, Dot(normaliser_, query_) + 1e-6f);
    for (int64_t i = Lane(); i < call_.width; i += kWarp) {
      out[i] = Flushed(out[i] * scale);
    }
  }

  const FastWeightCall& call_;
  const int64_t head_, features_;
  float* const state_;
  float* const normaliser_;
  float* const key_;
  float* const query_;
  float* const halves_;
};

// `shared`: FastWeightFloats. Sets a bit of *wrong where states are not left finite, as
// the call says.
MNEMON_DEVICE void FastWeights(const FastWeightCall& call, Share share, float* shared,
                               uint32_t* wrong) {
  const int64_t units = call.runs * call.heads, end = share.end(units);
  for (int64_t unit = share.begin(units) + WarpIndex(); unit < end;
       unit += WarpCount()) {
    const FastWeightRun run = call.run[unit / call.heads];
    FastWeightUnit one(call, run, call.first_head + unit % call.heads,
                       shared + WarpIndex() * FastWeightWarpFloats(call));
    float doubt = 0;
    for (int64_t row = run.first; row < run.first + run.count; ++row) {
      doubt += one.Add(row);
    }
    if (!(doubt == 0.0f)) AtomicOr(wrong, 1);
  }
}

}  // namespace mnemon::device
