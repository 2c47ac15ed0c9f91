// SPDX-License-Identifier: MIT
// What one call asks for: made once from its request, then constant.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/decoder/introspection.h"
#include "server/requests/request.h"

namespace mnemon {

// Shared by the call, what its session remembers of it, and the journal, as a constant.
struct CallParams {
  std::string request_id;            // may be empty
  std::string request_hash;          // HashOf the request; empty: it cannot be resumed
  SessionSampling sampling;          // the one in use, with its seed
  int64_t max_tokens = 0;            // 0: compute the prompt only
  std::vector<int32_t> stop_tokens;  // sorted
  std::vector<int32_t> end_tokens;   // of the model, sorted; empty: it goes on
  std::vector<std::string> stop_strings;
  std::optional<std::chrono::milliseconds> time_limit;  // from each admission
  LogprobOptions logprobs;
  IntrospectionFields introspection;
  OnDisconnect on_disconnect = OnDisconnect::kPause;

  bool operator==(const CallParams&) const = default;
};

}  // namespace mnemon
