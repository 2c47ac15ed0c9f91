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
  // Gaps between tokens of one stream; 0 for tokens that arrive together.
  std::vector<double> gaps;
};

// Greedy; sessions are dropped at the end. Reads on the calling thread.
// DEADLINE_EXCEEDED, with all streams cancelled, if `limit` passes first; the error of
// a stream if it ends with one; FAILED_PRECONDITION if the context cannot hold all
// tokens.
absl::StatusOr<RoundTimes> RunRound(Engine& engine, const RoundShape& shape,
                                    std::chrono::duration<double> limit);

}  // namespace mnemon
