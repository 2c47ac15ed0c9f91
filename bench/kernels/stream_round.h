// SPDX-License-Identifier: MIT
// One round of generation on an engine: several streams at once, every token timed by
// its reader.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/engine.h"

namespace mnemon {

struct RoundShape {
  int64_t streams = 1;
  int64_t prompt_tokens = 1;
  int64_t new_tokens = 1;  // per stream
  int64_t vocab = 0;
};

// Seconds.
struct RoundTimes {
  std::vector<double> first_token;
  // Between one token and the next of the same stream; tokens that arrive together are
  // 0 apart.
  std::vector<double> gaps;
};

// Greedy, sessions dropped at the end. Reads on the calling thread. DEADLINE_EXCEEDED,
// with all streams cancelled, when `limit` passes first; what a stream ends with when
// that is an error; FAILED_PRECONDITION when the context does not take all tokens.
absl::StatusOr<RoundTimes> RunRound(Engine& engine, const RoundShape& shape,
                                    std::chrono::duration<double> limit);

}  // namespace mnemon
