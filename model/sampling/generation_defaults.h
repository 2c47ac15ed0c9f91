// SPDX-License-Identifier: MIT
// A model's end tokens and sampling parameters, unless a call says otherwise.
#pragma once

#include <cstdint>
#include <vector>

#include "model/sampling/sampling_params.h"

namespace mnemon {

struct GenerationDefaults {
  // Tokens that end a text; sorted and unique.
  std::vector<int32_t> end_tokens;
  RequestedSampling sampling;

  bool operator==(const GenerationDefaults&) const = default;
};

}  // namespace mnemon
