// SPDX-License-Identifier: MIT
// What the engine keeps of a session and of a Generate call. "Guarded" means by the
// engine's mutex.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/sampling/sampler.h"
#include "model/text/detokenizer.h"
#include "model/text/stop_text.h"
#include "server/engine/request.h"
#include "server/engine/slot_state.h"
#include "server/engine/token_stream.h"

namespace mnemon {

struct Call;

// Looks for stop strings in the text of generated tokens.
class StopWatch {
 public:
  // `tokenizer` outlives it. REQUIRES: no string is empty.
  StopWatch(const Tokenizer& tokenizer, const std::vector<std::string>& strings)
      : tokenizer_(tokenizer), stop_(strings) {}
  // The string that this token completes.
  const std::optional<std::string>& Push(int32_t token) {
    stop_.Push(utf8_.Push(tokenizer_.TokenBytes(token)));
    return stop_.found();
  }

 private:
  const Tokenizer& tokenizer_;
  Utf8Stream utf8_;
  StopText stop_;
};

// Of a stateless call too: then the id is empty and it is in no table. Shared, because
// a session may be deleted while a call runs on it.
struct Session {
  // Constant after creation.
  std::string id;
  size_t lane = 0;  // index of its model
  std::optional<std::chrono::milliseconds> ttl;
  std::chrono::system_clock::time_point create_time;
  std::string request_id;  // of the call that made it; may be empty

  // Guarded. The history is written by the engine thread while a call runs, which may
  // therefore read it without the mutex.
  std::vector<int32_t> history;
  Call* call = nullptr;  // the one call that holds it; null at rest
  bool deleted = false;
  // Request ids of its newest calls, at most kRequests.
  static constexpr size_t kRequests = 64;
  std::deque<std::string> requests;
  int64_t state_bytes = 0;
  std::chrono::system_clock::time_point last_use_time;
  std::optional<std::chrono::steady_clock::time_point> expiry;  // at rest, with a ttl

  // Owned by the engine thread.
  SlotState state;
};

// Of a call that judges tokens instead of generating them.
struct Scoring {
  // Constant after creation. The session whose state the call's own one starts with;
  // null when it works on its session itself.
  std::shared_ptr<Session> source;

  // Guarded.
  std::vector<int32_t> input;  // of parts that have not joined the history
  int64_t tokens = 0;          // history and input
  bool closed = false;         // no part comes any more

  // Owned by the engine thread.
  int64_t next = 0;  // index of the token to judge next
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
  LogprobOptions logprobs;
  std::string request_id;  // may be empty
  std::optional<std::chrono::milliseconds> time_limit;
  std::chrono::steady_clock::time_point arrival;
  std::optional<Scoring> scoring;  // members: see there

  // Guarded.
  Phase phase = Phase::kStarting;
  absl::Status abort;      // not OK: how the engine thread is to end it
  int64_t prompt_end = 0;  // tokens of the history, prompt included
  int64_t generated = 0;
  std::chrono::steady_clock::time_point admission;
  std::optional<std::chrono::steady_clock::time_point> prompt_done;

  // Owned by the engine thread. Until so many tokens are fed, steps are its own: it was
  // part of a step that failed.
  int64_t alone_until = 0;
  // The generated text, as far as stop strings need it; absent without any.
  std::optional<StopWatch> stop_watch;

  bool stateless() const { return session->id.empty(); }
  // REQUIRES: admitted.
  std::optional<std::chrono::steady_clock::time_point> time_up() const {
    if (!time_limit) return std::nullopt;
    return admission + *time_limit;
  }
  // Tokens of the history that cancelling leaves.
  int64_t kept() const { return prompt_end + (scoring ? 0 : stream->delivered()); }
  // Tokens of the history that this call feeds: without sampling the last one stays.
  int64_t to_feed() const {
    const int64_t tokens = static_cast<int64_t>(session->history.size());
    return max_tokens == 0 ? tokens - 1 : tokens;
  }
};

}  // namespace mnemon
