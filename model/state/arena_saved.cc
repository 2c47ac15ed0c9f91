// SPDX-License-Identifier: MIT
// Saved states, whole ones too, and saved fixed entries.
#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "model/compute/kernels.h"
#include "model/state/arena.h"
#include "model/state/state_image.h"

namespace mnemon {
int64_t StateArena::SavedBlocks(int32_t slot) const {
  return spec_.growth() == Growth::kRing
             ? Visible(slots_[slot], slots_[slot].length).size()
             : 0;
}

absl::Status StateArena::Save(int32_t slot, SavedState& saved) try {
  Slot& s = slots_[slot];
  MNEMON_CHECK(s.used && saved.empty());
  if (s.length > 0) {
    Range range;
    if (spec_.growth() == Growth::kRing) range = Visible(s, s.length);
    saved.list_ = Share(s.list.get(), range);
    saved.fixed_ = SaveFixed(slot);
    saved.first_block_ = s.first_block + range.begin;
    saved.start_ = s.start;
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
  if (slot.list) slot.list->SetAllNew();
  slot.first_block = saved.first_block_;
  slot.start = saved.start_;
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
  if (saved.whole_ && !saved.fixed_.empty()) --wholes_;
  saved.whole_ = false;
  if (saved.blocks() > 0) blocks_->Drop(saved.list_, 0, saved.blocks());
  saved.list_ = nullptr;
  Drop(saved.fixed_);
  saved.position_ = -1;
}

void StateArena::Detach(int32_t slot, SavedState& saved) {
  Slot& s = slots_[slot];
  MNEMON_CHECK(s.used && saved.empty());
  saved.position_ = s.length;
  if (s.length > 0) {
    DropBlocks(s, {BlocksOf(s.length) - s.first_block, s.blocks()});
    saved.list_ = std::move(s.list);
    saved.first_block_ = s.first_block;
    saved.start_ = s.start;
    if (fixed_) fixed_->Hold(blank_);
    saved.fixed_.block_ = std::exchange(s.fixed, blank_);
  }
  MakeSavedWhole(saved);
  Reset(slot);
}

void StateArena::MakeSavedWhole(SavedState& saved) {
  saved.whole_ = true;
  if (!saved.fixed_.empty()) ++wholes_;
}

void StateArena::Attach(SavedState& saved, int32_t slot) {
  Slot& s = slots_[slot];
  MNEMON_CHECK(s.used && s.length == 0 && s.blocks() == 0 && !saved.empty());
  if (saved.position_ > 0) {
    PutBlocks(s, std::move(saved.list_), saved);
    if (fixed_) std::swap(s.fixed, saved.fixed_.block_);
  }
  Drop(saved);
}

absl::Status StateArena::Share(int32_t slot, int64_t length, const SavedFixed* fixed,
                               SavedState& saved) try {
  Slot& s = slots_[slot];
  MNEMON_CHECK(s.used && saved.empty() && length <= s.length);
  if (length > 0) {
    const Range range = Visible(s, length);
    if (spec_.growing()) {
      const int64_t first = StateImage::FirstRow(spec_, length);
      MNEMON_CHECK(s.first_block + range.begin <= first / kBlockPositions);
      saved.list_ = Share(s.list.get(), range);
    }
    if (fixed_) {
      fixed_->Hold(saved.fixed_.block_ = fixed ? fixed->block_ : s.fixed);
    }
    saved.first_block_ = s.first_block + range.begin;
    saved.start_ = s.start;
  }
  saved.position_ = length;
  MakeSavedWhole(saved);
  s.reserved = s.length;
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

absl::Status StateArena::Share(int32_t slot, const SavedState& kept,
                               SavedState& saved) {
  if (spec_.growth() != Growth::kRing) {
    return Share(slot, kept.position_, fixed_ ? &kept.fixed_ : nullptr, saved);
  }
  return Share(kept, saved);
}

absl::Status StateArena::Share(const SavedState& whole, SavedState& saved) try {
  MNEMON_CHECK(!whole.empty() && saved.empty());
  saved.list_ = Share(whole.list_.get(), {0, whole.blocks()});
  if (!whole.fixed_.empty()) fixed_->Hold(saved.fixed_.block_ = whole.fixed_.block_);
  saved.first_block_ = whole.first_block_;
  saved.start_ = whole.start_;
  saved.position_ = whole.position_;
  MakeSavedWhole(saved);
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

absl::Status StateArena::MakeWhole(int64_t computed, SavedState& saved) {
  MNEMON_CHECK(saved.empty() && computed >= 0);
  // By way of a slot, which has all that taking blocks needs.
  MNEMON_ASSIGN_OR_RETURN(const int32_t slot, Acquire());
  const int64_t first = StateImage::FirstRow(spec_, computed);
  if (spec_.growth() == Growth::kRing) StartAt(slot, first);
  absl::Status status = Reserve(slot, computed - first);
  if (status.ok()) {
    Slot& s = slots_[slot];
    s.length = s.reserved = computed;
    Detach(slot, saved);
  }
  Release(slot);
  return status;
}

int64_t StateArena::bytes_used(const SavedState& whole) const {
  return static_cast<int64_t>(sizeof(float)) *
         ((whole.fixed_.empty() ? 0 : fixed_floats_) + whole.blocks() * block_floats_);
}

int64_t StateArena::UnsharedBlocks(const SavedState& whole, int64_t most) const {
  return Unshared(whole.list_.get(), most);
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
