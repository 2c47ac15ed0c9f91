// SPDX-License-Identifier: MIT
#include "model/state/saved_states.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "model/compute/kernels.h"
#include "model/state/arena.h"
#include "model/state/state_image.h"

namespace mnemon {

StatePools& SavedStates::pools() const { return arena_.pools(); }

const StateSpec& SavedStates::spec() const { return arena_.spec(); }

int64_t SavedStates::BlocksToSave(int32_t slot) const {
  const StateSlot& s = arena_.slots_[slot];
  return spec().growth() == Growth::kRing ? s.Visible(spec(), s.length).size() : 0;
}

absl::Status SavedStates::Save(int32_t slot, SavedState& saved) try {
  StateSlot& s = arena_.slots_[slot];
  MNEMON_CHECK(s.used && saved.empty());
  if (s.length > 0) {
    BlockRange range;
    if (spec().growth() == Growth::kRing) range = s.Visible(spec(), s.length);
    saved.list_ = pools().Share(s.list.get(), range);
    saved.fixed_ = SaveFixed(slot);
    saved.first_block_ = s.first_block + range.begin;
    saved.start_ = s.start;
  }
  saved.position_ = s.length;
  s.reserved = s.length;
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return StatePools::OutOfMemory();
}

absl::Status SavedStates::Restore(int32_t slot, const SavedState& saved) try {
  StateSlot& s = arena_.slots_[slot];
  MNEMON_CHECK(s.used && !saved.empty());
  if (saved.position_ == 0) {
    arena_.Reset(slot);
    return absl::OkStatus();
  }
  if (spec().growth() == Growth::kRing) {
    PutBlocks(s, pools().Share(saved.list_.get(), {0, saved.blocks()}), saved);
  } else if (spec().growing()) {
    arena_.Truncate(slot, saved.position_);
  }
  if (pools().fixed() != nullptr) RestoreFixed(slot, saved.fixed_, saved.position_);
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return StatePools::OutOfMemory();
}

void SavedStates::PutBlocks(StateSlot& slot, std::unique_ptr<BlockList> list,
                            const SavedState& saved) {
  pools().DropBlocks(slot, {0, slot.blocks()});
  slot.list = std::move(list);
  if (slot.list) slot.list->SetAllNew();
  slot.first_block = saved.first_block_;
  slot.start = saved.start_;
  slot.length = slot.reserved = slot.floor = saved.position_;
}

void SavedStates::RestoreAndDrop(int32_t slot, SavedState& saved) {
  StateSlot& s = arena_.slots_[slot];
  MNEMON_CHECK(s.used && !saved.empty());
  if (saved.position_ == 0) {
    arena_.Reset(slot);
  } else {
    if (spec().growth() == Growth::kRing) {
      PutBlocks(s, std::move(saved.list_), saved);
    } else if (spec().growing()) {
      arena_.Truncate(slot, saved.position_);
    } else {
      s.length = s.reserved = saved.position_;
    }
    if (pools().fixed() != nullptr) std::swap(s.fixed, saved.fixed_.block_);
  }
  Drop(saved);
}

void SavedStates::Drop(SavedState& saved) {
  if (saved.whole_ && !saved.fixed_.empty()) pools().CountWholes(-1);
  saved.whole_ = false;
  if (saved.blocks() > 0) pools().growing()->Drop(saved.list_, 0, saved.blocks());
  saved.list_ = nullptr;
  Drop(saved.fixed_);
  saved.position_ = -1;
}

void SavedStates::Detach(int32_t slot, SavedState& saved) {
  StateSlot& s = arena_.slots_[slot];
  MNEMON_CHECK(s.used && saved.empty());
  saved.position_ = s.length;
  if (s.length > 0) {
    pools().DropBlocks(s, {BlocksOf(s.length) - s.first_block, s.blocks()});
    saved.list_ = std::move(s.list);
    saved.first_block_ = s.first_block;
    saved.start_ = s.start;
    if (pools().fixed() != nullptr) pools().fixed()->Hold(pools().blank());
    saved.fixed_.block_ = std::exchange(s.fixed, pools().blank());
  }
  MakeSavedWhole(saved);
  arena_.Reset(slot);
}

void SavedStates::MakeSavedWhole(SavedState& saved) {
  saved.whole_ = true;
  if (!saved.fixed_.empty()) pools().CountWholes(1);
}

void SavedStates::Attach(SavedState& saved, int32_t slot) {
  StateSlot& s = arena_.slots_[slot];
  MNEMON_CHECK(s.used && s.length == 0 && s.blocks() == 0 && !saved.empty());
  if (saved.position_ > 0) {
    PutBlocks(s, std::move(saved.list_), saved);
    if (pools().fixed() != nullptr) std::swap(s.fixed, saved.fixed_.block_);
  }
  Drop(saved);
}

absl::Status SavedStates::Share(int32_t slot, int64_t length, const SavedFixed* fixed,
                                SavedState& saved) try {
  StateSlot& s = arena_.slots_[slot];
  MNEMON_CHECK(s.used && saved.empty() && length <= s.length);
  if (length > 0) {
    const BlockRange range = s.Visible(spec(), length);
    if (spec().growing()) {
      const int64_t first = StateImage::FirstRow(spec(), length);
      MNEMON_CHECK(s.first_block + range.begin <= first / kBlockPositions);
      saved.list_ = pools().Share(s.list.get(), range);
    }
    if (pools().fixed() != nullptr) {
      pools().fixed()->Hold(saved.fixed_.block_ = fixed ? fixed->block_ : s.fixed);
    }
    saved.first_block_ = s.first_block + range.begin;
    saved.start_ = s.start;
  }
  saved.position_ = length;
  MakeSavedWhole(saved);
  s.reserved = s.length;
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return StatePools::OutOfMemory();
}

absl::Status SavedStates::Share(int32_t slot, const SavedState& kept,
                                SavedState& saved) {
  if (spec().growth() != Growth::kRing) {
    return Share(slot, kept.position_,
                 pools().fixed() != nullptr ? &kept.fixed_ : nullptr, saved);
  }
  return Share(kept, saved);
}

absl::Status SavedStates::Share(const SavedState& whole, SavedState& saved) try {
  MNEMON_CHECK(!whole.empty() && saved.empty());
  saved.list_ = pools().Share(whole.list_.get(), {0, whole.blocks()});
  if (!whole.fixed_.empty()) {
    pools().fixed()->Hold(saved.fixed_.block_ = whole.fixed_.block_);
  }
  saved.first_block_ = whole.first_block_;
  saved.start_ = whole.start_;
  saved.position_ = whole.position_;
  MakeSavedWhole(saved);
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return StatePools::OutOfMemory();
}

absl::Status SavedStates::MakeWhole(int64_t computed, SavedState& saved) {
  MNEMON_CHECK(saved.empty() && computed >= 0);
  // Uses a slot, which has everything needed to take blocks.
  MNEMON_ASSIGN_OR_RETURN(const int32_t slot, arena_.Acquire());
  const int64_t first = StateImage::FirstRow(spec(), computed);
  if (spec().growth() == Growth::kRing) arena_.StartAt(slot, first);
  absl::Status status = arena_.Reserve(slot, computed - first);
  if (status.ok()) {
    StateSlot& s = arena_.slots_[slot];
    s.length = s.reserved = computed;
    Detach(slot, saved);
  }
  arena_.Release(slot);
  return status;
}

int64_t SavedStates::bytes_used(const SavedState& whole) const {
  return pools().BytesOf(!whole.fixed_.empty(), whole.blocks());
}

int64_t SavedStates::UnsharedBlocks(const SavedState& whole, int64_t most) const {
  return pools().Unshared(whole.list_.get(), most);
}

SavedFixed SavedStates::TakeFixed(SavedState& saved) { return std::move(saved.fixed_); }

SavedFixed SavedStates::SaveFixed(int32_t slot) {
  SavedFixed saved;
  if (pools().fixed() != nullptr) {
    pools().fixed()->Hold(saved.block_ = arena_.slots_[slot].fixed);
  }
  return saved;
}

void SavedStates::RestoreFixed(int32_t slot, const SavedFixed& saved, int64_t length) {
  StateSlot& s = arena_.slots_[slot];
  MNEMON_CHECK(!saved.empty());
  pools().PutFixed(s, saved.block_);
  if (!spec().growing()) s.length = s.reserved = length;
}

void SavedStates::Drop(SavedFixed& saved) {
  if (!saved.empty()) pools().fixed()->Drop(std::exchange(saved.block_, nullptr));
}

}  // namespace mnemon
