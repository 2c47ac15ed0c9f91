// SPDX-License-Identifier: MIT
// Logits and parameters that together reach every part of the sampler. Drawn with
// integers and single roundings, so that every machine has the same.
#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "model/sampling/logprobs.h"
#include "model/sampling/sampler.h"

namespace mnemon {

// Sums of four integers: nearly normal, from -15 to 15, with ties.
inline std::vector<float> CaseLogits(size_t vocab, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> logits(vocab);
  for (float& logit : logits) {
    int64_t sum = -30000;
    for (int i = 0; i < 4; ++i) sum += static_cast<int64_t>(random() % 15001);
    logit = static_cast<float>(sum) / 2000;
  }
  logits[vocab / 2] = -std::numeric_limits<float>::infinity();
  return logits;
}

// For vocabularies of 4 tokens and more.
inline std::vector<SamplingParams> CaseParams() {
  return {{.temperature = 0},
          {.temperature = 0, .repetition_penalty = 1.3f, .logit_bias = {{1, 20.0f}}},
          {},
          {.temperature = 0.3f},
          {.temperature = 7},
          {.top_k = 40},
          {.top_p = 0.9f},
          {.temperature = 1.7f, .top_p = 0.999f},
          {.min_p = 0.05f},
          {.typical_p = 0.9f},
          {.temperature = 2, .top_k = 3000, .typical_p = 0.5f},
          {.temperature = 0.7f,
           .top_k = 300,
           .top_p = 0.8f,
           .min_p = 0.01f,
           .typical_p = 0.95f,
           .repetition_penalty = 1.1f,
           .frequency_penalty = 0.3f,
           .presence_penalty = -0.1f,
           .logit_bias = {{3, 1.5f}, {3, 0.1f}}}};
}

// The token at `index` after a drawn history, and its log-probabilities.
inline TokenLogprobs RunCase(std::vector<float>& logits, SamplingParams params,
                             int64_t index, SamplerScratch& scratch) {
  std::vector<int32_t> history(200);
  std::mt19937_64 random(static_cast<uint64_t>(index));
  for (int32_t& id : history) id = static_cast<int32_t>(random() % logits.size());
  PenaltyCounts counts(params, static_cast<int64_t>(logits.size()));
  counts.Update(history);
  params.seed = 77;
  const int32_t token = *Sample(logits, params, index, scratch, counts.counts());
  return *ScoreToken(logits, token, {.most_likely = 20, .ids = {0}}, scratch);
}

}  // namespace mnemon
