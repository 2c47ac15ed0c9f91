// SPDX-License-Identifier: MIT
// A parser of JSON from untrusted files.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace mnemon {

struct JsonLimits {
  int max_depth = 64;
  // Values and keys together.
  int64_t max_nodes = 20'000'000;
};

// Strict parse: UTF-8 only, no duplicate keys, no nesting beyond the limit (no
// recursion either), no NUL outside strings, nothing after the value but white space.
// Object keys keep their sorted order. INVALID_ARGUMENT names `what`, the byte offset
// and the fault, or what file it is that is no JSON: see FindFileKind.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view what,
                                         const JsonLimits& limits = {});

// The text of the parser's own exception, without the input it quotes: short and free
// of control characters, whatever the file holds.
std::string DescribeJsonFault(const std::exception& fault);

}  // namespace mnemon
