// SPDX-License-Identifier: MIT
// Grammar of ids chosen by callers that are part of resource names.
#pragma once

#include <string_view>

namespace mnemon {

// For messages: "ID is " kResourceIdRule.
inline constexpr char kResourceIdRule[] =
    "1 to 63 characters of a-z, 0-9 and '-' that starts with a letter or digit";

constexpr bool IsResourceId(std::string_view text) {
  return !text.empty() && text.size() <= 63 && text.front() != '-' &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == text.npos;
}

}  // namespace mnemon
