// SPDX-License-Identifier: MIT
// Changes of logits before a token is drawn: penalties of the tokens in a window, which
// the device keeps, and biases. All threads of a block call it. C++17.
#pragma once

#include <cfloat>
#include <cstdint>

#include "model/compute/cuda/numbers.h"

namespace mnemon::device {

// The newest tokens of a slot, in device memory. Their numbers of occurrences are
// counted anew for each draw, in scratch of the block: this costs as much as reading
// them, and a window then consists only of its tokens.
struct PenaltyWindow {
  int32_t* tokens = nullptr;  // a ring, [capacity], the slot's own
  int32_t capacity = 0;
  int32_t size = 0;  // number of tokens, from place 0 on
  int32_t next = 0;  // where the next token is put
};

// Appends a token, replacing the oldest of a full window. Called by one thread.
MNEMON_DEVICE void Append(PenaltyWindow& window, int32_t token) {
  if (window.capacity == 0) return;
  window.tokens[window.next] = token;
  window.size = Smaller(window.size + 1, window.capacity);
  window.next = window.next + 1 == window.capacity ? 0 : window.next + 1;
}

struct Penalties {
  float repetition = 1;
  float frequency = 0;
  float presence = 0;
};

struct TokenBias {
  int32_t token = 0;
  float bias = 0;  // finite or -infinity
};

// Bits for the kinds of logits that were seen.
inline constexpr uint32_t kSeenUnusable = 1, kSeenFinite = 2;

MNEMON_DEVICE uint32_t SeenOf(float logit) {
  if (!(logit < Infinity())) return kSeenUnusable;
  return logit > -Infinity() ? kSeenFinite : 0;
}

// Clamps, so that no sum or product of finite numbers forbids a token, or all others.
MNEMON_DEVICE float Saturated(float logit) {
  const float bounded = logit < FLT_MAX ? logit : FLT_MAX;
  return bounded > -FLT_MAX ? bounded : -FLT_MAX;
}

MNEMON_DEVICE float Penalized(float logit, uint32_t count, const Penalties& penalties) {
  if (logit == -Infinity()) return logit;
  const float changed =
      logit > 0 ? Divide(logit, penalties.repetition) : logit * penalties.repetition;
  const float often = penalties.frequency * static_cast<float>(count);
  return Saturated(changed - often - penalties.presence);
}

MNEMON_DEVICE float Biased(float logit, float bias) {
  if (logit == -Infinity() || bias == -Infinity()) return -Infinity();
  return Saturated(logit + bias);
}

// Applies penalties to the logits of a window's tokens, each once. Returns the bits of
// what this thread saw there before. `counts` ([V]) is scratch.
MNEMON_DEVICE uint32_t Penalize(const PenaltyWindow& window, const Penalties& penalties,
                                float* logits, uint32_t* counts) {
  const int32_t size = window.size, first = ThreadIndex(), step = ThreadCount();
  const int32_t* const tokens = window.tokens;
  for (int32_t i = first; i < size; i += step) counts[tokens[i]] = 0;
  Barrier();
  for (int32_t i = first; i < size; i += step) AtomicAdd(&counts[tokens[i]], 1);
  Barrier();
  uint32_t seen = 0;
  for (int32_t i = first; i < size; i += step) {
    const uint32_t count = AtomicExchange(&counts[tokens[i]], 0);
    if (count == 0) continue;  // another thread has it
    float& logit = logits[tokens[i]];
    seen |= SeenOf(logit);
    logit = Penalized(logit, count, penalties);
  }
  Barrier();
  return seen;
}

// The same for biases. REQUIRES: entries of one token are adjacent.
MNEMON_DEVICE uint32_t AddBiases(const TokenBias* biases, int32_t count,
                                 float* logits) {
  uint32_t seen = 0;
  for (int32_t i = ThreadIndex(); i < count; i += ThreadCount()) {
    const int32_t token = biases[i].token;
    if (i > 0 && biases[i - 1].token == token) continue;
    float logit = logits[token];
    seen |= SeenOf(logit);
    for (int32_t k = i; k < count && biases[k].token == token; ++k) {
      logit = Biased(logit, biases[k].bias);
    }
    logits[token] = logit;
  }
  Barrier();
  return seen;
}

}  // namespace mnemon::device
