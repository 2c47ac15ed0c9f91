// SPDX-License-Identifier: MIT
// What the engine keeps of a session and of a Generate call. "Guarded" means by the
// engine's mutex.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/sampling/sampler.h"
#include "server/engine/request.h"
#include "server/engine/slot_state.h"
#include "server/engine/token_stream.h"

namespace mnemon {

struct Call;

// Of a stateless call too: then the id is empty and it is in no table. Shared, because
// a session may be deleted while a call runs on it.
struct Session {
  // Constant after creation.
  std::string id;
  size_t lane = 0;  // index of its model
  std::optional<std::chrono::milliseconds> ttl;
  std::chrono::system_clock::time_point create_time;

  // Guarded. The history is written by the engine thread while a call runs, which may
  // therefore read it without the mutex.
  std::vector<int32_t> history;
  Call* call = nullptr;  // the one call that holds it; null at rest
  bool deleted = false;
  int64_t state_bytes = 0;
  std::chrono::system_clock::time_point last_use_time;
  std::optional<std::chrono::steady_clock::time_point> expiry;  // at rest, with a ttl

  // Owned by the engine thread.
  SlotState state;
};

// Owned by the list of its lane that its phase names; shared with the callback of its
// stream, which may come at any time.
struct Call {
  enum class Phase {
    kQueued,      // stateless, waits for a place
    kStarting,    // has a place, the engine thread has not taken it up
    kRunning,     // steps
    kDelivering,  // generated all; its consumer has not taken all
    kOver,
  };

  // Constant after creation.
  std::shared_ptr<Session> session;
  std::shared_ptr<TokenStream> stream;
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  int64_t max_tokens = 0;            // 0: feed only
  std::vector<int32_t> stop_tokens;  // sorted

  // Guarded.
  Phase phase = Phase::kStarting;
  absl::Status abort;      // not OK: how the engine thread is to end it
  int64_t prompt_end = 0;  // tokens of the history, prompt included
  int64_t generated = 0;

  // Owned by the engine thread. Until so many tokens are fed, steps are its own: it was
  // part of a step that failed.
  int64_t alone_until = 0;

  bool stateless() const { return session->id.empty(); }
  // Tokens of the history that cancelling leaves.
  int64_t kept() const { return prompt_end + stream->delivered(); }
  // Tokens of the history that this call feeds: without sampling the last one stays.
  int64_t to_feed() const {
    const int64_t tokens = static_cast<int64_t>(session->history.size());
    return max_tokens == 0 ? tokens - 1 : tokens;
  }
};

}  // namespace mnemon
