// SPDX-License-Identifier: MIT
// Suggestion of the closest of several names for a mistyped one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace mnemon {

// The candidate with the smallest edit distance to `name`, the first among equals;
// empty if none is close.
std::string NearestName(std::string_view name, std::span<const std::string> candidates);

// "; did you mean X?", or nothing if no candidate is close.
std::string DidYouMean(std::string_view name, std::span<const std::string> candidates);

}  // namespace mnemon
