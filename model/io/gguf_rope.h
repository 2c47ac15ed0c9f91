// SPDX-License-Identifier: MIT
// Scaling of rotary positions: maps the factors of frequencies in rope_freqs.weight of
// a GGUF file to the rope_scaling of a config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace mnemon {

// rope_type llama3 with low_freq_factor 1 and high_freq_factor 4, the only ones in such
// files.
struct Llama3Factors {
  double factor = 1;
  int64_t context = 0;  // original_max_position_embeddings

  static constexpr double kLow = 1, kHigh = 4;
};

// `factors`: divisors that llama.cpp applies to frequency i = theta^(-2 i / width),
// [width / 2]. None if no such scaling has these factors, to float32 precision.
std::optional<Llama3Factors> FindLlama3Factors(std::span<const float> factors,
                                               double theta, int64_t width);

}  // namespace mnemon
