// SPDX-License-Identifier: MIT
#include "server/engine/slot_state.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace mnemon {

absl::Status SlotState::Acquire(StateArena& arena) {
  if (held()) return absl::OkStatus();
  MNEMON_ASSIGN_OR_RETURN(slot_, arena.Acquire());
  return absl::OkStatus();
}

void SlotState::Release(StateArena& arena) {
  if (!held()) return;
  arena.Release(slot_);
  slot_ = -1;
  shadows_ = {};
  spare_ = {};
}

absl::Status SlotState::CopyFrom(const SlotState& other, StateArena& arena) {
  return other.held() ? arena.Copy(other.slot_, slot_) : absl::OkStatus();
}

int64_t SlotState::fed(const StateArena& arena) const {
  return held() ? arena.length(slot_) : 0;
}

int64_t SlotState::bytes(const StateArena& arena) const {
  return held() ? arena.bytes_used(slot_) : 0;
}

int64_t SlotState::Feedable(const StateArena& arena, int64_t history,
                            int64_t kept) const {
  const int64_t fed = arena.length(slot_);
  const int64_t earliest = kept - 1;  // the least fed() that a cut can ask for
  if (arena.spec().fixed_elements() == 0 || history <= earliest) return history - fed;
  const int64_t last_start = earliest - (kShadowInterval - 1);
  if (fed < last_start) return std::min(history, last_start) - fed;
  const int64_t next = NewestShadow() + kShadowInterval;
  return std::min(history, next > fed ? next : fed + kShadowInterval) - fed;
}

void SlotState::LetGo(StateArena& arena, int64_t kept) {
  const int64_t fed = arena.length(slot_);
  const int64_t earliest = kept - 1;
  if (arena.spec().fixed_elements() == 0) {
    arena.SetFloor(slot_, std::min(fed, earliest));
    return;
  }
  while (shadows_.size() > 1 && shadows_[1].position <= earliest) {
    spare_.push_back(std::move(shadows_.front().values));
    shadows_.erase(shadows_.begin());
  }
  // Without a shadow a cut starts afresh and needs no row.
  arena.SetFloor(slot_, shadows_.empty() ? fed : shadows_.front().position);
}

void SlotState::BeforeFeed(StateArena& arena, int64_t count, int64_t kept) {
  const int64_t fed = arena.length(slot_);
  if (arena.spec().fixed_elements() == 0 || fed + count < kept ||
      fed - NewestShadow() < kShadowInterval) {
    return;
  }
  Shadow shadow{.position = fed, .values = {}};
  if (!spare_.empty()) {
    shadow.values = std::move(spare_.back());
    spare_.pop_back();
  }
  arena.SaveFixed(slot_, shadow.values);
  shadows_.push_back(std::move(shadow));
}

void SlotState::CutBack(StateArena& arena, int64_t history) {
  if (!held()) return;
  const int64_t target = std::max<int64_t>(0, history - 1);
  if (arena.length(slot_) <= target) return;
  if (arena.spec().fixed_elements() == 0) {
    arena.Truncate(slot_, target);
    return;
  }
  DropShadowsAfter(target);
  RestoreNewest(arena);
}

void SlotState::Settle(StateArena& arena, int64_t history) {
  if (!held()) return;
  CutBack(arena, history);
  shadows_ = {};
  spare_ = {};
  arena.SetFloor(slot_, arena.length(slot_));
}

void SlotState::Distrust(StateArena& arena, int64_t position) {
  if (arena.spec().fixed_elements() == 0) {
    if (arena.length(slot_) > position) arena.Truncate(slot_, position);
    return;
  }
  DropShadowsAfter(position);
  RestoreNewest(arena);
}

int64_t SlotState::NewestShadow() const {
  return shadows_.empty() ? 0 : shadows_.back().position;
}

void SlotState::DropShadowsAfter(int64_t position) {
  while (!shadows_.empty() && shadows_.back().position > position) {
    spare_.push_back(std::move(shadows_.back().values));
    shadows_.pop_back();
  }
}

void SlotState::RestoreNewest(StateArena& arena) {
  if (shadows_.empty()) {
    arena.Reset(slot_);
    return;
  }
  const Shadow& shadow = shadows_.back();
  arena.Truncate(slot_, shadow.position);
  arena.RestoreFixed(slot_, shadow.values, shadow.position);
}

}  // namespace mnemon
