// SPDX-License-Identifier: MIT
// A decoder without tensors: its logits are a hash of the whole history (of the last M
// tokens' rows for a ring), kept in every kind of state. Any mistake in a state changes
// the following tokens.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "model/decoder/decoder.h"
#include "model/sampling/sampler.h"

namespace mnemon {

enum class ToyState { kFixed, kRing, kAppend, kFixedAndRing, kFixedAndAppend };

// All kinds, for parametrised tests.
inline constexpr ToyState kToyStates[] = {ToyState::kFixed, ToyState::kRing,
                                          ToyState::kAppend, ToyState::kFixedAndRing,
                                          ToyState::kFixedAndAppend};
std::string ToyName(ToyState state);

class ToyDecoder final : public Decoder {
 public:
  static constexpr int64_t kVocab = 40;
  static constexpr int64_t kRingCapacity = 21;
  // Tokens that it never generates, and the effect of computing them.
  static constexpr int32_t kOrdinaryTokens = 32;  // ids below are ordinary
  static constexpr int32_t kFailing = 33;         // Step returns INTERNAL
  static constexpr int32_t kThrowing = 34;     // Step throws and leaves states damaged
  static constexpr int32_t kNotANumber = 35;   // NaN logits
  static constexpr int32_t kOutOfMemory = 36;  // std::bad_alloc
  static constexpr int32_t kNonFinite = 37;    // NonFiniteState, states damaged

  explicit ToyDecoder(ToyState state, int64_t append_capacity = 1024);

  const ModelDescription& model() const override { return model_; }
  const StateSpec& spec() const override { return spec_; }
  const std::string& numerics_id() const override { return numerics_id_; }
  int64_t weight_bytes() const override { return 0; }
  // The state as far as it has one; the first logit as hidden state.
  IntrospectionFields introspection() const override;
  absl::Status Submit(std::span<const Segment> segments, StateArena& arena,
                      float* logits) override;
  absl::Status Import(int64_t position, const TensorViews& carry, StateArena& arena,
                      int32_t slot) override;

  // Lets only `steps` more calls of Step proceed; others wait.
  void Allow(int64_t steps);
  void AllowAll();
  // Waits until a call of Step waits.
  void AwaitHeld();

  // Segments of the largest step, and tokens of the longest segment so far.
  size_t largest_step() const;
  size_t longest_segment() const;

 private:
  void PassGate(std::span<const Segment> segments);
  void ComputeToken(StateArena& arena, int32_t slot, int64_t position, int32_t token);
  void Introspect(const StateArena& arena, const Segment& segment, float sum_before,
                  Introspection& out) const;
  void Damage(StateArena& arena, int32_t slot);
  void Logits(const StateArena& arena, int32_t slot, int64_t position,
              float* out) const;

  ModelDescription model_;
  StateSpec spec_;
  std::string numerics_id_ = "toy";
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t allowed_ = -1;  // guarded by mutex_, as all below; -1 = any number
  bool held_ = false;
  size_t largest_step_ = 0;
  size_t longest_segment_ = 0;
};

// Continuation of a session with `history`: `count` tokens from a separate arena,
// computed one token at a time.
std::vector<int32_t> ToyContinuation(ToyState state, std::vector<int32_t> history,
                                     int64_t count, const SamplingParams& sampling);

// Introspection of every token of `history`, each computed alone.
std::vector<Introspection> ToyIntrospections(ToyState state,
                                             const std::vector<int32_t>& history,
                                             const IntrospectionFields& fields,
                                             int64_t append_capacity = 1024);

}  // namespace mnemon
