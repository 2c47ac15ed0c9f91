// SPDX-License-Identifier: MIT
// The measured models: an architecture as users type it, in a named size.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/families/config.h"

namespace mnemon {

// Names of TypedNames (model/families) whose models generate token by token.
std::vector<std::string> BenchArchitectures();

//        D    L   H   F     V
//   XS   128  4   4   512   128
//   S    256  6   8   1024  128
//   M    512  8   8   2048  128
//   G    768  12  12  3072  50257
// with 4096 positions, and otherwise Family::usual. SEED: Family::reference, the
// architecture's reference experiment; for those of labml, on a text of 65 characters.
std::span<const std::string_view> BenchSizes();

// `architecture`: any of TypedNames. NOT_FOUND lists the known names.
absl::StatusOr<ModelConfig> SizedConfig(std::string_view architecture,
                                        std::string_view size);

}  // namespace mnemon
