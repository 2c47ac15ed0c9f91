// SPDX-License-Identifier: MIT
// The state of one session in an arena, and what it takes to cut it back.
//
// Growing entries are cut by truncation. A fixed entry has no past, so while tokens can
// still be taken back, copies ("shadows") of the fixed entries are kept, one per
// kShadowInterval fed tokens, the oldest at most that far before the earliest point a
// cut can reach. Cutting back restores a shadow; the tokens between it and the cut are
// fed again with the next call.
//
// `kept` below: the tokens of the history that no cut can take away (the prompt and
// what was delivered). Owned by the engine thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "model/state/arena.h"

namespace mnemon {

class SlotState {
 public:
  static constexpr int64_t kShadowInterval = 16;

  bool held() const { return slot_ >= 0; }
  // REQUIRES: held.
  int32_t slot() const { return slot_; }
  // No effect when held. RESOURCE_EXHAUSTED when no slot is free.
  absl::Status Acquire(StateArena& arena);
  // No effect when not held.
  void Release(StateArena& arena);

  // Makes a fresh state a copy of `other`, which rests in the same arena.
  // RESOURCE_EXHAUSTED when the pool has too few blocks. REQUIRES: held.
  absl::Status CopyFrom(const SlotState& other, StateArena& arena);

  // Tokens fed; 0 when not held.
  int64_t fed(const StateArena& arena) const;
  int64_t bytes(const StateArena& arena) const;

  // How many of the tokens fed() .. history-1 one segment may take, so that a shadow
  // falls where one is due. REQUIRES: held, fed() <= history.
  int64_t Feedable(const StateArena& arena, int64_t history, int64_t kept) const;
  // Forgets what no cut can reach any more; a ring's blocks go back to the pool.
  void LetGo(StateArena& arena, int64_t kept);
  // Before every segment of `count` tokens: saves a due shadow.
  void BeforeFeed(StateArena& arena, int64_t count, int64_t kept);
  // Makes fed() <= history - 1 (0 for an empty history).
  void CutBack(StateArena& arena, int64_t history);
  // CutBack, after which no earlier cut will come.
  void Settle(StateArena& arena, int64_t history);
  // After a feed from `position` that may have left anything: back to a trusted state
  // at or before `position`.
  void Distrust(StateArena& arena, int64_t position);

 private:
  struct Shadow {
    int64_t position;
    std::vector<float> values;
  };

  int64_t NewestShadow() const;
  void DropShadowsAfter(int64_t position);
  // Back to the newest shadow, or to a fresh state when there is none.
  void RestoreNewest(StateArena& arena);

  int32_t slot_ = -1;
  // By rising position. A fresh state (position 0) is its own shadow and not listed.
  std::vector<Shadow> shadows_;
  std::vector<std::vector<float>> spare_;  // memory of dropped shadows
};

}  // namespace mnemon
