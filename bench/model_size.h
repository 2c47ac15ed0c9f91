// SPDX-License-Identifier: MIT
// The models that are measured: an architecture as users type it, in a named size.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "model/config/config.h"

namespace mnemon {

// feedback, feedback_shared, fast_weights, transformer_xl, causal.
std::span<const std::string_view> BenchArchitectures();

//        D    L   H   F     V
//   XS   128  4   4   512   128
//   S    256  6   8   1024  128
//   M    512  8   8   2048  128
//   G    768  12  12  3072  50257
// with 4096 positions, learned ones and a tied head for causal, a memory of 256 for
// transformer_xl, nu 1 and the delta rule for fast_weights. SEED: the architecture's
// reference experiment on a text of 65 characters.
std::span<const std::string_view> BenchSizes();

// NOT_FOUND lists the known names.
absl::StatusOr<ModelConfig> SizedConfig(std::string_view architecture,
                                        std::string_view size);

}  // namespace mnemon
