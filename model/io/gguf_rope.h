// SPDX-License-Identifier: MIT
// The scaling of rotary positions that a GGUF file has as factors of frequencies, in
// rope_freqs.weight, as the rope_scaling of a config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace mnemon {

// rope_type llama3 with low_freq_factor 1 and high_freq_factor 4, which is all that
// such files were made of.
struct Llama3Factors {
  double factor = 1;
  int64_t context = 0;  // original_max_position_embeddings

  static constexpr double kLow = 1, kHigh = 4;
};

// `factors`: by which llama.cpp divides frequency i = theta^(-2 i / width), [width /
// 2]. None where no such scaling has these factors, to float32's precision.
std::optional<Llama3Factors> FindLlama3Factors(std::span<const float> factors,
                                               double theta, int64_t width);

}  // namespace mnemon
