// SPDX-License-Identifier: MIT
// The closest of several names to one that was mistyped.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace mnemon {

// The candidate with the smallest edit distance to `name`, of equal ones the first;
// empty when none is close.
std::string NearestName(std::string_view name, std::span<const std::string> candidates);

// "; did you mean X?", or nothing when no candidate is close.
std::string DidYouMean(std::string_view name, std::span<const std::string> candidates);

}  // namespace mnemon
