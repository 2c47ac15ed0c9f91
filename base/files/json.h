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
  // Number of values and keys.
  int64_t max_nodes = 20'000'000;
};

// Strict parse: UTF-8 only, no duplicate keys, no nesting beyond the limit (and no
// recursion), no NUL outside strings, only white space after the value. Object keys are
// sorted. INVALID_ARGUMENT names `what`, the byte offset and the fault, or the kind of
// file if it is not JSON: see FindFileKind.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view what,
                                         const JsonLimits& limits = {});

// The text of the parser's exception without the input that it quotes: short and free
// of control characters for any file.
std::string DescribeJsonFault(const std::exception& fault);

}  // namespace mnemon
