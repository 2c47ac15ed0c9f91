// SPDX-License-Identifier: MIT
// Sessions of one model for measurements: stepped and reset, so that every repetition
// does the same work.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/kernels/bench_model.h"
#include "model/decoder/decoder.h"
#include "model/state/arena.h"

namespace mnemon {

// Used by one thread. `model` must outlive it.
class Sessions {
 public:
  // `batch` sessions, each with a drawn memory of `context` tokens. FAILED_PRECONDITION
  // if context + 1 tokens exceed a session of the model.
  static absl::StatusOr<Sessions> Create(const BenchModel& model, int64_t batch,
                                         int64_t context);

  // Makes Step ask for the introspection of each token, with all fields of the decoder.
  void Introspect();
  // Computes one token of each of the first `count` sessions, with logits for all of
  // them.
  absl::Status Step(int64_t count);
  // Undoes all steps. A fixed state keeps its numbers, since its work does not depend
  // on them.
  void Rewind();

  // Computes a prompt in all sessions, chunk by chunk, with logits for its last token.
  // DEADLINE_EXCEEDED if a chunk would start after `deadline`. REQUIRES: context 0.
  absl::Status FeedPrompt(int64_t tokens,
                          std::chrono::steady_clock::time_point deadline);
  // Resets to fresh sessions.
  void Reset();

  // Logits of the last call, [sessions, V].
  std::span<const float> logits() const { return logits_; }
  // Bytes of state that all sessions hold.
  int64_t held_bytes() const { return arena_->pools().bytes_used(); }

 private:
  Sessions(const BenchModel& model, std::unique_ptr<StateArena> arena, int64_t context);
  absl::Status ImportDrawn(const BenchModel& model, int32_t slot);

  Decoder* decoder_;
  std::unique_ptr<StateArena> arena_;
  int64_t context_;
  int64_t vocab_;
  std::vector<int32_t> slots_;
  std::vector<int32_t> tokens_;                // concatenated, for prompts and steps
  std::vector<Segment> segments_;              // one per session
  std::vector<Introspection> introspections_;  // likewise, or none
  std::vector<float> logits_;                  // [sessions, V]
};

}  // namespace mnemon
