// SPDX-License-Identifier: MIT
#include "client/load/call_draw.h"

#include <random>

#include "absl/strings/numbers.h"
#include "base/quote.h"
#include "base/strings.h"

namespace mnemon::client {
namespace {

// The bias of the remainder of 64 bits is negligible here.
int32_t DrawFrom(std::mt19937_64& random, const TokenRange& range) {
  const auto count = static_cast<uint64_t>(range.most - range.least) + 1;
  return range.least + static_cast<int32_t>(random() % count);
}

}  // namespace

absl::StatusOr<TokenRange> ParseTokenRange(const std::string& text, int32_t limit) {
  const size_t dash = text.find('-');
  TokenRange range;
  const bool read = absl::SimpleAtoi(text.substr(0, dash), &range.least);
  range.most = range.least;
  const bool both = read && (dash == text.npos ||
                             absl::SimpleAtoi(text.substr(dash + 1), &range.most));
  if (!both || range.least < 1 || range.most < range.least || range.most > limit) {
    return absl::InvalidArgumentError(
        StrCat(Quoted(text), " is neither a number of tokens from 1 to ", limit,
               " nor a range of them, for example 64 or 32-128"));
  }
  return range;
}

std::string TokenRangeText(const TokenRange& range) {
  return range.least == range.most ? StrCat(range.least)
                                   : StrCat(range.least, "-", range.most);
}

CallDraw DrawCall(const DrawOptions& options, int64_t number) {
  constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;  // golden ratio: keeps numbers apart
  std::mt19937_64 random(options.seed + kSpread * (static_cast<uint64_t>(number) + 1));
  CallDraw draw;
  draw.seed = random();
  draw.max_tokens = DrawFrom(random, options.max_tokens);
  draw.prompt.resize(static_cast<size_t>(DrawFrom(random, options.prompt_tokens)));
  for (int32_t& token : draw.prompt) {
    token = static_cast<int32_t>(random() % static_cast<uint64_t>(options.vocab));
  }
  return draw;
}

}  // namespace mnemon::client
