// SPDX-License-Identifier: MIT
#include "server/residency/slot_state.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "model/state/state_image.h"

namespace mnemon {

absl::Status SlotState::Acquire(StateArena& arena, int64_t history) {
  if (held()) return absl::OkStatus();
  MNEMON_ASSIGN_OR_RETURN(slot_, arena.Acquire());
  DropImage();
  if (!whole_.empty()) arena.saved().Attach(whole_, slot_);
  CutBack(arena, history);
  return absl::OkStatus();
}

absl::Status SlotState::MakeImage(StateArena& arena, ByteCharge charge) try {
  MNEMON_CHECK(!held() && !whole_.empty());
  auto image = std::make_unique<Image>();
  image->computed = whole_.position();
  const int64_t floats = StateImage::Floats(arena.spec(), image->computed);
  image->charge = std::move(charge);
  if (!image->charge.TrySet(floats * static_cast<int64_t>(sizeof(float)))) {
    return OutOfMemoryError("the states of sessions");
  }
  image->numbers.resize(static_cast<size_t>(floats));
  MNEMON_RETURN_IF_ERROR(
      StateImage::Read(arena.spec(), arena.memory(), whole_, image->numbers));
  arena.saved().Drop(whole_);
  image_ = std::move(image);
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return OutOfMemoryError("the states of sessions");
}

absl::Status SlotState::TakeImage(StateArena& arena) {
  MNEMON_CHECK(has_image() && !has_state());
  SavedState whole;
  MNEMON_RETURN_IF_ERROR(arena.saved().MakeWhole(image_->computed, whole));
  const absl::Status written =
      StateImage::Write(arena.spec(), arena.memory(), image_->numbers, whole);
  if (!written.ok()) {
    arena.saved().Drop(whole);
    return written;
  }
  Put(whole);
  return absl::OkStatus();
}

void SlotState::Reset(StateArena& arena) {
  DropShadowsAfter(arena, -1);
  arena.saved().Drop(before_call_);
  arena.Reset(slot_);
}

void SlotState::Release(StateArena& arena) {
  arena.saved().Drop(whole_);
  if (!held()) return;
  Reset(arena);
  arena.Release(slot_);
  slot_ = -1;
}

absl::Status SlotState::Share(StateArena& arena, int64_t history,
                              SavedState& whole) const {
  const int64_t target = std::max<int64_t>(0, history - 1);
  if (!whole_.empty()) {
    // Acquire cuts what has computed more.
    return arena.saved().Share(whole_, whole);
  }
  if (!held() || target == 0) return absl::OkStatus();
  const int64_t length = arena.length(slot_);
  if (length == 0) return absl::OkStatus();
  if (length <= target) return arena.saved().Share(slot_, length, nullptr, whole);
  for (auto shadow = shadows_.rbegin(); shadow != shadows_.rend(); ++shadow) {
    if (shadow->position <= target) {
      return arena.saved().Share(slot_, shadow->position, &shadow->fixed, whole);
    }
  }
  if (arena.spec().fixed_elements() == 0 && HoldsRows(arena, target)) {
    return arena.saved().Share(slot_, target, nullptr, whole);
  }
  if (before_call_.empty() || before_call_.position() == 0 ||
      before_call_.position() > target) {
    return absl::OkStatus();
  }
  return arena.saved().Share(slot_, before_call_, whole);
}

int64_t SlotState::computed(const StateArena& arena) const {
  if (held()) return arena.length(slot_);
  return whole_.empty() ? 0 : whole_.position();
}

int64_t SlotState::bytes(const StateArena& arena) const {
  if (held()) return arena.bytes_used(slot_);
  return whole_.empty() ? 0 : arena.saved().bytes_used(whole_);
}

int64_t SlotState::UnsharedBlocks(const StateArena& arena, int64_t most) const {
  return held() ? arena.UnsharedBlocks(slot_, most)
                : arena.saved().UnsharedBlocks(whole_, most);
}

absl::Status SlotState::BeginCall(StateArena& arena) try {
  MNEMON_CHECK(held() && shadows_.empty() && before_call_.empty());
  shadows_.reserve(kMaxShadows);  // KeepPrompt cannot fail
  return arena.saved().Save(slot_, before_call_);
} catch (const std::bad_alloc&) {
  return OutOfMemoryError("the state of a session");
}

void SlotState::KeepPrompt(StateArena& arena) {
  if (before_call_.empty()) return;
  // A cut may still need it: its rows are held until a later shadow serves all cuts.
  SavedFixed fixed = arena.saved().TakeFixed(before_call_);
  if (!fixed.empty()) {
    shadows_.insert(shadows_.begin(),
                    {.position = before_call_.position(), .fixed = std::move(fixed)});
  }
  arena.saved().Drop(before_call_);
}

void SlotState::RollBackCall(StateArena& arena) {
  if (before_call_.empty()) return;
  DropShadowsAfter(arena, -1);
  arena.saved().RestoreAndDrop(slot_, before_call_);
}

int64_t SlotState::ChunkLimit(const StateArena& arena, int64_t history,
                              int64_t kept) const {
  const int64_t computed = arena.length(slot_);
  if (arena.spec().fixed_elements() == 0) return history - computed;
  const auto next = [&](int64_t interval) {
    const int64_t due = NewestShadow() + interval;
    return due > computed ? due : computed + interval;
  };
  const int64_t earliest = kept - 1;  // the least computed() that a cut can ask for
  const int64_t last_start = earliest - (kShadowInterval - 1);
  if (computed >= last_start)
    return std::min(history, next(kShadowInterval)) - computed;
  // A shadow just before last_start would be in the way of the one there.
  const int64_t due = next(PromptInterval(arena));
  const int64_t end = due + kShadowInterval <= last_start ? due : last_start;
  return std::min(history, end) - computed;
}

void SlotState::ReleaseUnreachable(StateArena& arena, int64_t kept, int64_t complete) {
  const int64_t earliest = std::min(kept - 1, complete);
  if (arena.spec().fixed_elements() == 0) {
    arena.SetFloor(slot_, earliest);
    return;
  }
  while (shadows_.size() > 1 && shadows_[1].position <= earliest) {
    arena.saved().Drop(shadows_.front().fixed);
    shadows_.erase(shadows_.begin());
  }
  const bool covered = !shadows_.empty() && shadows_.front().position <= earliest;
  if (!covered && Base() > 0) {
    arena.SetFloor(slot_, Base());
  } else {
    // A replay from a fresh state needs no row.
    arena.SetFloor(slot_, shadows_.empty() ? complete : shadows_.front().position);
  }
}

bool SlotState::ShadowDue(const StateArena& arena, int64_t count, int64_t kept) const {
  if (arena.spec().fixed_elements() == 0) return false;
  const int64_t computed = arena.length(slot_);
  const int64_t since = computed - NewestShadow();
  return since >= PromptInterval(arena) ||
         (computed + count >= kept && since >= kShadowInterval);
}

void SlotState::BeforeStep(StateArena& arena, int64_t count, int64_t kept) {
  if (!ShadowDue(arena, count, kept)) return;
  shadows_.reserve(kMaxShadows);
  shadows_.push_back(
      {.position = arena.length(slot_), .fixed = arena.saved().SaveFixed(slot_)});
}

void SlotState::CutBack(StateArena& arena, int64_t history) {
  if (!held()) return CutAtRest(arena, history);
  const int64_t target = std::max<int64_t>(0, history - 1);
  if (arena.length(slot_) <= target) return;
  if (arena.spec().fixed_elements() == 0) {
    if (HoldsRows(arena, target)) {
      arena.Truncate(slot_, target);
    } else {
      arena.Reset(slot_);
    }
    return;
  }
  DropShadowsAfter(arena, target);
  RestoreNewest(arena);
}

bool SlotState::HoldsRows(const StateArena& arena, int64_t position) const {
  return arena.first_held(slot_) <= StateImage::FirstRow(arena.spec(), position);
}

void SlotState::Rest(StateArena& arena, int64_t history) {
  if (!held()) return;
  CutBack(arena, history);
  DropShadowsAfter(arena, -1);
  shadows_.shrink_to_fit();
  arena.saved().Drop(before_call_);
  if (arena.length(slot_) > 0) {
    arena.SetFloor(slot_, arena.length(slot_));
    arena.saved().Detach(slot_, whole_);
  }
  arena.Release(slot_);
  slot_ = -1;
}

void SlotState::CutAtRest(StateArena& arena, int64_t history) {
  if (image_computed() >= std::max<int64_t>(1, history)) DropImage();
  if (!has_state() || computed(arena) < std::max<int64_t>(1, history)) return;
  if (!Acquire(arena, history).ok()) return Release(arena);
  Rest(arena, history);
}

void SlotState::RollBack(StateArena& arena, int64_t position) {
  if (arena.spec().fixed_elements() == 0) {
    if (arena.length(slot_) > position) arena.Truncate(slot_, position);
    return;
  }
  DropShadowsAfter(arena, position);
  RestoreNewest(arena);
}

int64_t SlotState::NewestShadow() const {
  return shadows_.empty() ? Base() : shadows_.back().position;
}

void SlotState::DropShadowsAfter(StateArena& arena, int64_t position) {
  while (!shadows_.empty() && shadows_.back().position > position) {
    arena.saved().Drop(shadows_.back().fixed);
    shadows_.pop_back();
  }
}

void SlotState::RestoreNewest(StateArena& arena) {
  if (shadows_.empty()) {
    // Restoring a ring may run out of memory; computing from token 0 gives the same
    // state.
    if (Base() == 0 || !arena.saved().Restore(slot_, before_call_).ok())
      arena.Reset(slot_);
    return;
  }
  const Shadow& shadow = shadows_.back();
  arena.Truncate(slot_, shadow.position);
  arena.saved().RestoreFixed(slot_, shadow.fixed, shadow.position);
}

}  // namespace mnemon
