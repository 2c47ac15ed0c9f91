// SPDX-License-Identifier: MIT
// What the calls of a load ask for: prompts of random tokens, and how many tokens are
// to follow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mnemon::client {

// Numbers of tokens, all equally likely; both ends included.
struct TokenRange {
  int32_t least = 0;
  int32_t most = 0;
  bool operator==(const TokenRange&) const = default;
};

// "64", or "32-128". INVALID_ARGUMENT unless from 1 to `limit` and ascending.
absl::StatusOr<TokenRange> ParseTokenRange(const std::string& text, int32_t limit);
// The same, back.
std::string TokenRangeText(const TokenRange& range);

struct CallDraw {
  std::vector<int32_t> prompt;
  int32_t max_tokens = 0;
  uint64_t seed = 0;  // of the call's sampling
};

struct DrawOptions {
  uint64_t seed = 0;
  int64_t vocab = 1;  // at least 1
  TokenRange prompt_tokens;
  TokenRange max_tokens;
};

// A pure function of both: whichever caller takes the call, it is the same one.
CallDraw DrawCall(const DrawOptions& options, int64_t number);

}  // namespace mnemon::client
