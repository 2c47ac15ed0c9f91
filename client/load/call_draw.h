// SPDX-License-Identifier: MIT
// Random calls of a load test: prompts of random tokens, and numbers of tokens to
// generate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mnemon::client {

// A uniform range of numbers of tokens, inclusive.
struct TokenRange {
  int32_t least = 0;
  int32_t most = 0;
  bool operator==(const TokenRange&) const = default;
};

// Parses "64", or "32-128". INVALID_ARGUMENT unless from 1 to `limit` and ascending.
absl::StatusOr<TokenRange> ParseTokenRange(const std::string& text, int32_t limit);
// Formats a range in this form.
std::string TokenRangeText(const TokenRange& range);

struct CallDraw {
  std::vector<int32_t> prompt;
  int32_t max_tokens = 0;
  uint64_t seed = 0;  // for the call's sampling
};

struct DrawOptions {
  uint64_t seed = 0;
  int64_t vocab = 1;  // at least 1
  TokenRange prompt_tokens;
  TokenRange max_tokens;
};

// A pure function of both, so that a call is the same for any caller that makes it.
CallDraw DrawCall(const DrawOptions& options, int64_t number);

}  // namespace mnemon::client
