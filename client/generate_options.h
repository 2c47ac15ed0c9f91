// SPDX-License-Identifier: MIT
// What a caller chooses of a generation.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mnemon::client {

struct TokenBias {
  int32_t token = 0;
  float bias = 0;  // finite, or -infinity
};

// Log-probabilities of tokens, and of candidates beside them.
struct LogprobOptions {
  bool wanted = false;
  int32_t most_likely = 0;   // so many most likely tokens, and
  std::vector<int32_t> ids;  // these
};

struct GenerateOptions {
  std::string model;    // may be empty when the server has one
  std::string session;  // empty: no memory is kept
  std::string text;     // prompt; or
  std::vector<int32_t> tokens;
  std::optional<int32_t> max_tokens;
  std::optional<double> temperature;
  std::optional<int32_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> typical_p;
  std::optional<double> repetition_penalty;
  std::optional<double> frequency_penalty;
  std::optional<double> presence_penalty;
  std::optional<int32_t> penalty_window_tokens;
  std::vector<TokenBias> logit_bias;
  std::optional<uint64_t> seed;
  std::vector<int32_t> stop_token_ids;
  std::vector<std::string> stop_strings;
  std::optional<std::chrono::milliseconds> time_limit;
  // Of the whole call from now on: DEADLINE_EXCEEDED after it.
  std::optional<std::chrono::milliseconds> deadline;
  LogprobOptions logprobs;
};

}  // namespace mnemon::client
