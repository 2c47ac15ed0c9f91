// SPDX-License-Identifier: MIT
// Passes over flat buffers of weights and gradients: the sum of the shards and the
// update rules of Optimiser. The bits do not depend on the instruction set, nor on the
// ranges into which several threads divide a buffer.
#pragma once

#include <cstdint>
#include <span>

namespace mnemon {

// Elements of a block, whose squares are summed separately. The range of each thread
// begins at a multiple of it.
inline constexpr int64_t kFlatBlock = 4096;

// Adds elements begin .. end - 1 of all `shards` into the first one and returns the sum
// of its squares. The order of additions is a tree whose shape depends on the number of
// shards alone: the first half and the second half, as in shards.h.
// REQUIRES: end - begin <= kFlatBlock.
double AddShards(std::span<float* const> shards, int64_t begin, int64_t end);

// The factors of one update of Adam, the same for all elements.
struct AdamFactors {
  float keep, decay;      // of the weight
  float b1, b2, a1, a2;   // of the moments, a = 1 - b
  float rate;             // of the step
  float root_scale, eps;  // of its divisor
};

// g = scale * gradient + decay * w; m = b1 m + a1 g; v = b2 v + a2 g^2;
// w = keep * w - rate * m / (sqrt(v) * root_scale + eps).
struct AdamPass {
  AdamFactors factors;
  float scale;  // of the gradient
  const float* gradients;
  float *weights, *first, *second;
};
void ApplyAdam(const AdamPass& pass, int64_t begin, int64_t end);

// b = momentum b + (scale * gradient + decay * w); w = w - rate * b.
struct SgdPass {
  float rate, momentum, decay;
  float scale;
  const float* gradients;
  float *weights, *buffer;
};
void ApplySgd(const SgdPass& pass, int64_t begin, int64_t end);

}  // namespace mnemon
