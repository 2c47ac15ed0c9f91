// SPDX-License-Identifier: MIT
// Saved states and saved fixed entries.
#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "model/state/arena.h"

namespace mnemon {
int64_t StateArena::SavedBlocks(int32_t slot) const {
  return spec_.growth() == Growth::kRing ? Visible(slots_[slot]).size() : 0;
}

absl::Status StateArena::Save(int32_t slot, SavedState& saved) try {
  Slot& s = slots_[slot];
  MNEMON_CHECK(s.used && saved.empty());
  if (s.length > 0) {
    Range range;
    if (spec_.growth() == Growth::kRing) range = Visible(s);
    saved.list_ = Share(s.list.get(), range);
    saved.fixed_ = SaveFixed(slot);
    saved.first_block_ = s.first_block + range.begin;
  }
  saved.position_ = s.length;
  s.reserved = s.length;
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

absl::Status StateArena::Restore(int32_t slot, const SavedState& saved) try {
  Slot& s = slots_[slot];
  MNEMON_CHECK(s.used && !saved.empty());
  if (saved.position_ == 0) {
    Reset(slot);
    return absl::OkStatus();
  }
  if (spec_.growth() == Growth::kRing) {
    PutBlocks(s, Share(saved.list_.get(), {0, saved.blocks()}), saved);
  } else if (spec_.growing()) {
    Truncate(slot, saved.position_);
  }
  if (fixed_) RestoreFixed(slot, saved.fixed_, saved.position_);
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

void StateArena::PutBlocks(Slot& slot, std::unique_ptr<BlockList> list,
                           const SavedState& saved) {
  DropBlocks(slot, {0, slot.blocks()});
  slot.list = std::move(list);
  slot.first_block = saved.first_block_;
  slot.length = slot.reserved = slot.floor = saved.position_;
}

void StateArena::RestoreAndDrop(int32_t slot, SavedState& saved) {
  Slot& s = slots_[slot];
  MNEMON_CHECK(s.used && !saved.empty());
  if (saved.position_ == 0) {
    Reset(slot);
  } else {
    if (spec_.growth() == Growth::kRing) {
      PutBlocks(s, std::move(saved.list_), saved);
    } else if (spec_.growing()) {
      Truncate(slot, saved.position_);
    } else {
      s.length = s.reserved = saved.position_;
    }
    if (fixed_) std::swap(s.fixed, saved.fixed_.block_);
  }
  Drop(saved);
}

void StateArena::Drop(SavedState& saved) {
  if (saved.blocks() > 0) blocks_->Drop(saved.list_, 0, saved.blocks());
  saved.list_ = nullptr;
  Drop(saved.fixed_);
  saved.position_ = -1;
}

SavedFixed StateArena::TakeFixed(SavedState& saved) { return std::move(saved.fixed_); }

SavedFixed StateArena::SaveFixed(int32_t slot) {
  SavedFixed saved;
  if (fixed_) fixed_->Hold(saved.block_ = slots_[slot].fixed);
  return saved;
}

void StateArena::RestoreFixed(int32_t slot, const SavedFixed& saved, int64_t length) {
  Slot& s = slots_[slot];
  MNEMON_CHECK(!saved.empty());
  PutFixed(s, saved.block_);
  if (!spec_.growing()) s.length = s.reserved = length;
}

void StateArena::Drop(SavedFixed& saved) {
  if (!saved.empty()) fixed_->Drop(std::exchange(saved.block_, nullptr));
}

}  // namespace mnemon
