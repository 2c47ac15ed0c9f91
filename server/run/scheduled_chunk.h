// SPDX-License-Identifier: MIT
// The unit of work of a model runner: some tokens of one call in one step, from the
// plan to its results. Owned by the runner's thread.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/decoder/introspection.h"
#include "model/sampling/logprobs.h"

namespace mnemon {

struct Call;

struct ScheduledChunk {
  // Set by the runner.
  Call* call = nullptr;   // valid while it runs
  int64_t position = 0;   // of the first token == computed tokens of the session
  int64_t available = 0;  // tokens that may be computed now, at least 1
  // Positions it can grow by without another block of the pool (below 0: the first
  // block that it takes gives so many fewer), and blocks that are reserved for it.
  int64_t free_positions = std::numeric_limits<int64_t>::max();
  int64_t reserved_blocks = 0;
  // Prompt tokens computed so far, for taking turns.
  int64_t prefill_served = 0;
  int64_t kept = 0;          // Call::kept()
  bool was_starved = false;  // in the plan before

  // The plan: 0 = not in this step.
  int64_t count = 0;
  bool starved = false;  // because no block is free

  // Set when its step is submitted: tokens or scores that it will give.
  int64_t results = 0;

  // The results. None is set when the step failed as a whole and each call is to be
  // tried alone.
  bool computed = false;
  std::optional<int32_t> token;  // sampled, when the chunk reached the history's end
  std::optional<std::string> stop_string;      // that the token completes
  std::optional<TokenLogprobs> logprobs;       // of `token`, where wanted
  std::optional<Introspection> introspection;  // likewise
  // Of a scoring call: the tokens that the computed ones predict, from Scoring::next
  // on.
  std::vector<TokenLogprobs> scored;
  absl::Status status;  // not OK: this call's own failure
};

}  // namespace mnemon
