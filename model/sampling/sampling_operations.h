// SPDX-License-Identifier: MIT
// Arithmetic of sampling over many logits, one table per instruction set, all with the
// same bits (docs/numerics.md, Sampling). Pure functions, for any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace mnemon {

// Sums of float32 are computed in blocks of this many token ids, counted from id 0.
inline constexpr int64_t kSamplingBlock = 1024;
// Elements past the end of their output that operations may overwrite.
inline constexpr int64_t kWriteSlack = 16;

// Weights are 2^40 exp((logit - most) / temperature).
struct LogitScale {
  float most = 0;  // the largest logit, finite
  float temperature = 1;
};

struct LargestLogit {
  float logit = 0;
  int64_t id = 0;       // the first of the largest logits
  bool usable = false;  // no logit is NaN or +infinity; one is finite
};

// Information of a logit: log(total) - (logit - most) / temperature.
struct InformationScale {
  LogitScale logits;
  float total = 1;  // sum of the weights, times 2^-40
  float log_total = 0;
};

// Logits must be finite or -infinity, except for `largest`.
struct SamplingOperations {
  const char* target;  // "avx2"
  LargestLogit (*largest)(const float* logits, int64_t count);
  // Computes fixed-point weights; returns their sum. Writes with slack.
  uint64_t (*weigh)(const LogitScale& scale, const float* logits, int64_t count,
                    uint64_t* weights);
  // Computes the information of each token, and its part of the entropy; infinity and 0
  // for a token of weight 0. Writes with slack.
  void (*inform)(const InformationScale& scale, const float* logits, int64_t count,
                 float* information, float* entropy);
  // Sum of exp(logit - most). REQUIRES: count <= kSamplingBlock.
  float (*sum_exp)(float most, const float* logits, int64_t count);
  // REQUIRES: count <= kSamplingBlock and a multiple of 16.
  float (*sum)(const float* numbers, int64_t count);
  // Writes `first` + i for every i whose score is >= `least`, ascending and with slack;
  // returns their number.
  int64_t (*find)(const float* scores, int64_t count, float least, int32_t first,
                  int32_t* found);
};

// Tables of this build that the machine can run, the best first.
std::span<const SamplingOperations> AllSamplingOperations();

// The table for a target of the kernels; empty: the best. The most portable table if
// there is none for the target, such as for the reference.
const SamplingOperations& SamplingOperationsOf(std::string_view target = {});

}  // namespace mnemon
