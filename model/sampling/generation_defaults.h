// SPDX-License-Identifier: MIT
// How the texts of a model end and how they are sampled, unless a call says otherwise.
#pragma once

#include <cstdint>
#include <vector>

#include "model/sampling/sampling_params.h"

namespace mnemon {

struct GenerationDefaults {
  // A text ends with any of them; sorted, each once.
  std::vector<int32_t> end_tokens;
  RequestedSampling sampling;

  bool operator==(const GenerationDefaults&) const = default;
};

}  // namespace mnemon
