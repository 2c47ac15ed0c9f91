// SPDX-License-Identifier: MIT
// Sessions of one model side by side, for measuring: stepped, and put back where they
// were, so that every repetition does the same work.
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

// One thread. `model` must outlive it.
class Sessions {
 public:
  // `batch` sessions, each with a drawn memory of `context` tokens. FAILED_PRECONDITION
  // when context + 1 tokens are more than a session of the model takes.
  static absl::StatusOr<Sessions> Create(const BenchModel& model, int64_t batch,
                                         int64_t context);

  // From now on Step asks for the introspection of each token, all fields that the
  // decoder has.
  void Introspect();
  // Computes one token of each of the first `count` sessions, logits for all of them.
  absl::Status Step(int64_t count);
  // Undoes all steps. A fixed state keeps its numbers: its work does not depend on
  // them.
  void Rewind();

  // Computes a prompt in all sessions, chunk after chunk, logits for its last token.
  // DEADLINE_EXCEEDED when a chunk would start after `deadline`. REQUIRES: context 0.
  absl::Status FeedPrompt(int64_t tokens,
                          std::chrono::steady_clock::time_point deadline);
  // Back to fresh sessions.
  void Reset();

  // Of the last call, [sessions, V].
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
  std::vector<int32_t> tokens_;    // one after the other, for prompts and steps
  std::vector<Segment> segments_;  // one per session
  std::vector<Introspection> introspections_;  // likewise, or none
  std::vector<float> logits_;                  // [sessions, V]
};

}  // namespace mnemon
