// SPDX-License-Identifier: MIT
#include "model/blocks/fast_weights/step_reference.h"

#include <algorithm>
#include <cmath>

#include "model/compute/reference_sums.h"

namespace mnemon::reference {
namespace {

// phi(x) [N], with `halves` [2 K] as scratch.
void Features(const FeatureMap& map, const float* x, int64_t width, float* halves,
              float* out) {
  const int64_t count = map.features(width), wide = 2 * width;
  for (int64_t j = 0; map.elu && j < width; ++j) {
    out[j] = x[j] < 0 ? std::exp(x[j]) : x[j] + 1;
  }
  for (int64_t j = 0; j < width; ++j) {
    halves[j] = std::max(x[j], 0.0f);
    halves[width + j] = std::max(-x[j], 0.0f);
  }
  for (int64_t i = 1; !map.elu && i <= map.nu; ++i) {
    for (int64_t j = 0; j < wide; ++j) {
      out[(i - 1) * wide + j] = halves[j] * halves[((j - i) % wide + wide) % wide];
    }
  }
  const float sum = Sum(count, [&](int64_t i, float s) { return s + out[i]; }) + 1e-6f;
  for (int64_t n = 0; n < count; ++n) out[n] /= sum;
}

}  // namespace

bool FastWeights(const FastWeightCall& call, Share share, float* scratch) {
  bool finite = true;
  const int64_t units = call.runs * call.heads,
                features = call.map.features(call.width);
  float *k = scratch, *q = k + features, *halves = q + features;
  for (int64_t unit = share.begin(units); unit < share.end(units); ++unit) {
    const FastWeightRun& run = call.run[unit / call.heads];
    const int64_t h = call.first_head + unit % call.heads, at = h * call.width;
    const int64_t from = h * call.head_stride;
    float* state = run.fixed + call.state_offset + h * features * call.width;
    for (int64_t r = run.first; r < run.first + run.count; ++r) {
      Features(call.map, call.key.row(r) + from, call.width, halves, k);
      Features(call.map, call.query.row(r) + from, call.width, halves, q);
      finite = finite && std::all_of(k, k + 2 * features,
                                     [](float phi) { return std::isfinite(phi); });
      float scale = 1;
      if (call.normaliser_offset >= 0) {
        float* z = run.fixed + call.normaliser_offset + h * features;
        for (int64_t n = 0; n < features; ++n) z[n] += k[n];
        scale = 1.0f / (Dot(z, q, features) + 1e-6f);
      }
      for (int64_t i = 0; i < call.width; ++i) {
        float change = call.value.row(r)[from + i];
        if (call.beta.data != nullptr) {
          float old = 0;
          for (int64_t n = 0; n < features; ++n)
            old += state[n * call.width + i] * k[n];
          change = call.beta.row(r)[h] * (change - old);
        }
        finite = finite && std::abs(change) < kMostChange;
        float read = 0;
        for (int64_t n = 0; n < features; ++n) {
          state[n * call.width + i] += change * k[n];
          read += state[n * call.width + i] * q[n];
        }
        call.out.row(r)[at + i] = read * scale;
      }
    }
  }
  return finite;
}

}  // namespace mnemon::reference
