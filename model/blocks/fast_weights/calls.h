// SPDX-License-Identifier: MIT
// Calls of fast weights on rows: see model/compute/kernels.h. C++17, for nvcc.
#pragma once

#include <cstdint>

#include "base/partition.h"
#include "model/compute/feature_map.h"
#include "model/compute/kernels.h"

namespace mnemon {

// Consecutive rows of one session, computed in order.
struct FastWeightRun {
  int64_t first = 0;
  int64_t count = 0;
  float* fixed = nullptr;  // the session's fixed entries
};

// Tokens of fast weights, per run and head in order, write before read:
//   W += beta (v - W phi(k)) phi(k)^T   or   W += v phi(k)^T
//   out = W phi(q)   [/ (z.phi(q) + 1e-6), z += phi(k)]
// phi is the feature map. The state is read from and written to memory once per token.
// Returns whether all phi are finite and the changes v or beta (v - W phi(k)) are below
// kMostChange in magnitude. W and z then stay finite for any number of tokens: phi is
// at most 1, and adding such changes to numbers from 2^90 on does not alter them.
struct FastWeightCall {
  int64_t first_head = 0;
  int64_t heads = 0;  // from first_head on
  int64_t width = 0;  // K
  FeatureMap map;     // N features
  int64_t runs = 0;
  const FastWeightRun* run = nullptr;  // [runs]
  // Within the fixed entries: W^T [H][N][K]; z [H][N], -1: none.
  int64_t state_offset = 0;
  int64_t normaliser_offset = -1;
  // [rows], with heads at multiples of head_stride.
  ConstRows query{nullptr, 0}, key{nullptr, 0}, value{nullptr, 0};
  int64_t head_stride = 0;
  ConstRows beta{nullptr, 0};  // [rows, H], after the sigmoid; null data: the sum rule
  Rows out;                    // [rows, H K]
};

// Floats of scratch per worker on the CPU.
inline int64_t ScratchFloats(const FastWeightCall& call) {
  return 2 * call.map.features(call.width) + 4 * call.width;
}

// The call restricted to heads begin .. end-1.
inline FastWeightCall HeadsOf(FastWeightCall call, Part heads) {
  call.first_head += heads.begin;
  call.heads = heads.size();
  return call;
}

}  // namespace mnemon
