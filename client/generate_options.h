// SPDX-License-Identifier: MIT
// Options of a generation.
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
  int32_t most_likely = 0;   // number of most likely tokens, and
  std::vector<int32_t> ids;  // these
};

// Behaviour of a call on a session whose stream is lost.
enum class OnDisconnect {
  kPause,     // waits at the last delivered token
  kContinue,  // goes on to its end
};

// A message of a conversation.
struct Message {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

// Treatment of characters that the model's vocabulary lacks.
enum class UnknownCharacters { kAsModel, kRefuse, kSkip, kReplace };

// Sampling parameters. Absent ones are the session's, else the server's default.
struct SamplingOptions {
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
};

// Conditions that end a generation.
struct StoppingOptions {
  std::optional<int32_t> max_tokens;
  std::vector<int32_t> stop_token_ids;
  std::vector<std::string> stop_strings;
  bool ignore_eos = false;  // go on after the model's own end token
  std::optional<std::chrono::milliseconds> time_limit;
};

// Handling of a call on a session whose stream is lost.
struct ResumeOptions {
  // The client resumes the stream; the call needs a request id for this.
  bool automatic = true;
  OnDisconnect on_disconnect = OnDisconnect::kPause;
  // Resumes the stream of an earlier call, GenerateOptions::request_id, after the token
  // with this index; -1: from its first token. All other options except the session and
  // the deadline are ignored.
  std::optional<int64_t> after;
};

struct GenerateOptions {
  std::string model;    // may be empty if the server has one, or one named "default"
  std::string session;  // empty: no memory is kept
  std::string text;     // prompt; or
  std::vector<int32_t> tokens;    // likewise; or
  std::vector<Message> messages;  // in the model's chat template
  UnknownCharacters unknown_characters = UnknownCharacters::kAsModel;
  StoppingOptions stopping;
  SamplingOptions sampling;
  // Limit of the whole call from now on: then DEADLINE_EXCEEDED.
  std::optional<std::chrono::milliseconds> deadline;
  LogprobOptions logprobs;
  // A UUID that names the call; empty: drawn, if the client may resume it.
  std::string request_id;
  ResumeOptions resume;
  // Number of tokens that the session's history must have, else ABORTED,
  // TOKEN_COUNT_MISMATCH.
  std::optional<int64_t> expected_tokens;
};

}  // namespace mnemon::client
