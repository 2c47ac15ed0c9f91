// SPDX-License-Identifier: MIT
// Random logits and parameters of every kind, including extreme ones and ties.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

#include "model/sampling/sampling_params.h"

namespace mnemon {

class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed) {}

  bool Often(int in) { return random_() % in == 0; }
  uint64_t Bits() { return random_(); }
  int32_t Below(size_t n) { return static_cast<int32_t>(random_() % n); }
  double Normal() { return std::normal_distribution<double>()(random_); }
  template <class Number>
  Number OneOf(std::initializer_list<Number> of) {
    return of.begin()[random_() % of.size()];
  }

  std::vector<float> Logits(size_t vocab) {
    std::vector<float> logits(vocab);
    const int kind = Below(8);
    const double scale = OneOf({0.01, 1.0, 3.0, 30.0});
    for (float& logit : logits) {
      const double number = kind == 0   ? Below(2)
                            : kind == 1 ? Below(9)
                            : kind == 2 ? 1.0
                            : kind == 3 ? std::round(4 * Normal()) / 4
                                        : Normal();
      logit = static_cast<float>(scale * number);
      if (kind == 5 && Often(3)) logit = OneOf({-HUGE_VALF, -3e38f, 0.0f, -0.0f});
      // Neighbours whose distances to a large one round to the same.
      if (kind == 6) logit = 1e6f + static_cast<float>(number);
      if (kind == 7) logit = OneOf({0.0f, -0.0f, -1.0f});
    }
    logits[Below(vocab)] = kind == 7 ? 0.0f : static_cast<float>(scale);
    return logits;
  }

  SamplingParams Params(size_t vocab) {
    SamplingParams params;
    params.temperature = OneOf(
        {1.0f, 1.0f, 0.7f, 2.5f, 0.0f, 1e-3f, 1e-45f, 1e-38f, 40.0f, 1e4f, 3e38f});
    const auto share = [&] {
      return OneOf({0.9f, 0.5f, 0.25f, 0.95f, 0.999f, 1e-45f, 0.0f, 1e-9f,
                    0x1.fffffep-1f, 1.0f / 3,
                    static_cast<float>(1 + Below(vocab)) / static_cast<float>(vocab)});
    };
    if (Often(4)) params.top_k = OneOf({1, 2, 40, Below(vocab) + 1, INT32_MAX});
    if (Often(2)) params.top_p = share();
    if (Often(4)) params.typical_p = share();
    if (Often(4)) params.min_p = OneOf({share(), share() * 1e-3f, 1e-45f});
    if (Often(3)) {
      params.repetition_penalty = OneOf({1.0f, 1.3f, 0.5f, 1000.0f, 0.001f});
      params.frequency_penalty = OneOf({0.0f, 0.25f, -1.5f, 0.1f});
      params.presence_penalty = OneOf({0.0f, 0.5f, -1000.0f});
      params.penalty_window_tokens = OneOf({0, 1, 64, 65536});
    }
    if (Often(4)) {
      for (int i = Below(4); i >= 0; --i) {
        params.logit_bias.push_back({Below(vocab), OneOf({-HUGE_VALF, 0.5f, 8.0f, -1e4f,
                                                          3e38f, -3e38f, 0.1f})});
      }
    }
    params.seed = Bits();
    return params;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace mnemon
