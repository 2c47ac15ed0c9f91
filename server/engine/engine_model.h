// SPDX-License-Identifier: MIT
// A loaded model as the engine gets it, and the statistics of one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/decoder/decoder.h"
#include "model/text/tokenizer.h"
#include "server/engine/request.h"

namespace mnemon {

// Either a decoder, which has sessions, or a predictor. What the pointers refer to
// outlives the engine; `tokenizer` may be null.
struct EngineModel {
  ModelFacts facts;
  Decoder* decoder = nullptr;
  Predictor* predictor = nullptr;
  const Tokenizer* tokenizer = nullptr;
};

struct ModelStats {
  std::string model;
  std::string architecture;
  int64_t running = 0;  // requests
  int64_t waiting = 0;
  int64_t max_waiting = 0;  // Options::max_queue
  // Of the running ones: nothing can be computed because their callers do not read or
  // do not send.
  int64_t stalled = 0;
  bool ready = true;  // takes calls: neither draining nor full
  int64_t sessions_queued = 0;
  int64_t sessions_running = 0;
  int64_t state_bytes = 0;
  int64_t state_capacity_bytes = 0;
  int64_t steps = 0;
  int64_t tokens_fed = 0;
  int64_t tokens_generated = 0;
};

// For health, metrics and tests.
struct EngineStats {
  int64_t running = 0;
  int64_t queued = 0;
  int64_t sessions = 0;
  int64_t state_bytes = 0;
  int64_t steps = 0;
  int64_t tokens_fed = 0;
  int64_t tokens_generated = 0;
  int64_t sessions_created = 0;
  int64_t sessions_expired = 0;
  bool draining = false;
  std::vector<ModelStats> models;  // in the order of Create
};

}  // namespace mnemon
