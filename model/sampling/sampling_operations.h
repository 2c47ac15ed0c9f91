// SPDX-License-Identifier: MIT
// The arithmetic of sampling over many logits, one table per instruction set, all with
// the same bits (docs/numerics.md, Sampling). Pure, for any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace mnemon {

// Sums of float32 are made in blocks of so many token ids, counted from id 0.
inline constexpr int64_t kSamplingBlock = 1024;
// What operations write may need room for up to so many elements behind its end.
inline constexpr int64_t kWriteSlack = 16;

// Weights are 2^40 exp((logit - most) / temperature).
struct LogitScale {
  float most = 0;  // the largest logit, finite
  float temperature = 1;
};

struct LargestLogit {
  float logit = 0;
  int64_t id = 0;       // the first of them
  bool usable = false;  // no logit is NaN or +infinity, and one is finite
};

// What makes information of a weight: log(total) - (logit - most) / temperature.
struct InformationScale {
  LogitScale logits;
  float total = 1;  // of the weights, times 2^-40
  float log_total = 0;
};

// Logits are finite or -infinity, but for `largest`.
struct SamplingOperations {
  const char* target;  // "avx2"
  LargestLogit (*largest)(const float* logits, int64_t count);
  // Fixed-point weights; returns their sum. Writes with slack.
  uint64_t (*weigh)(const LogitScale& scale, const float* logits, int64_t count,
                    uint64_t* weights);
  // The information of each token, and its part of the entropy; of a token whose weight
  // is 0, infinity and 0. Writes with slack.
  void (*inform)(const InformationScale& scale, const float* logits, int64_t count,
                 float* information, float* entropy);
  // Sum of exp(logit - most). REQUIRES: count <= kSamplingBlock.
  float (*sum_exp)(float most, const float* logits, int64_t count);
  // REQUIRES: count <= kSamplingBlock and a multiple of 16.
  float (*sum)(const float* numbers, int64_t count);
  // Writes `first` + i for every i whose score is at least `least`, rising and with
  // slack; returns how many.
  int64_t (*find)(const float* scores, int64_t count, float least, int32_t first,
                  int32_t* found);
};

// Of this build that this machine can run, the best first.
std::span<const SamplingOperations> AllSamplingOperations();

// Those of a target of the kernels; empty: the best. Where there are none of the name,
// as for the reference, the most portable ones.
const SamplingOperations& SamplingOperationsOf(std::string_view target = {});

}  // namespace mnemon
