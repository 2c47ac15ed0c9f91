// SPDX-License-Identifier: MIT
#include "model/state/arena.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/reserve.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/kernels/kernels.h"

namespace mnemon {
namespace {

// How far a stream may run ahead of delivery, twice: the rows a ring keeps beyond M.
constexpr int64_t kRingSlack = 2 * kMaxChunk;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t BlocksPerSlot(const StateSpec& spec) {
  switch (spec.growth()) {
    case Growth::kFixed:
      return 0;
    case Growth::kRing:
      return CeilDiv(spec.capacity() + kRingSlack, kBlockPositions) + 1;
    case Growth::kAppend:
      return CeilDiv(spec.capacity(), kBlockPositions);
  }
  return 0;
}

}  // namespace

// `blocks[i]` holds positions (first_block + i) * kBlockPositions and following; its
// rows are held from `first_held` (of the first block) to `reserved`.
struct StateArena::Slot {
  bool used = false;
  int64_t length = 0;
  int64_t reserved = 0;
  int64_t floor = 0;
  int64_t first_block = 0;
  std::vector<float*> blocks;
  float* fixed = nullptr;
};

absl::StatusOr<std::unique_ptr<StateArena>> StateArena::Create(const StateSpec& spec,
                                                               const Options& options) {
  MNEMON_RETURN_IF_ERROR(spec.Validate());
  if (options.slots < 1) {
    return InvalidField(
        "slots", StrCat("an arena needs at least one slot, got ", options.slots));
  }
  if (options.blocks < 0) {
    return InvalidField("blocks",
                        StrCat("blocks must not be negative, got ", options.blocks));
  }
  int64_t blocks = options.blocks;
  if (blocks == 0) {
    const int64_t per_slot = BlocksPerSlot(spec);
    if (per_slot > std::numeric_limits<int64_t>::max() / options.slots) {
      return InvalidField("slots", "slots times blocks per slot overflows");
    }
    blocks = per_slot * options.slots;
  }
  return std::unique_ptr<StateArena>(new StateArena(spec, options, blocks));
}

StateArena::StateArena(const StateSpec& spec, const Options& options,
                       int64_t max_blocks)
    : spec_(spec),
      max_blocks_(max_blocks),
      block_floats_(spec.row_elements() * kBlockPositions),
      slots_(options.slots) {
  int64_t fixed_offset = 0;
  int64_t row_offset = 0;
  for (const StateEntry& entry : spec_.entries) {
    const bool fixed = entry.growth == Growth::kFixed;
    entry_elements_.push_back(entry.elements());
    entry_offset_.push_back(fixed ? fixed_offset : row_offset * kBlockPositions);
    (fixed ? fixed_offset : row_offset) += entry.elements();
  }
}

StateArena::~StateArena() = default;

int32_t StateArena::slots() const { return static_cast<int32_t>(slots_.size()); }

int64_t StateArena::bytes_used() const {
  return static_cast<int64_t>(sizeof(float)) *
         (slots_used_ * spec_.fixed_elements() + blocks_used_ * block_floats_);
}

int64_t StateArena::bytes_used(int32_t slot) const {
  const int64_t blocks = static_cast<int64_t>(slots_[slot].blocks.size());
  return static_cast<int64_t>(sizeof(float)) *
         (spec_.fixed_elements() + blocks * block_floats_);
}

absl::StatusOr<int32_t> StateArena::Acquire() {
  for (int32_t slot = 0; slot < slots(); ++slot) {
    if (slots_[slot].used) continue;
    if (slots_[slot].fixed == nullptr && spec_.fixed_elements() > 0) {
      slots_[slot].fixed = memory_.TakeFloats(spec_.fixed_elements());
    }
    slots_[slot].used = true;
    ++slots_used_;
    Reset(slot);
    return slot;
  }
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      StrCat("all ", slots(), " session slots are in use"),
      {.reason = "NO_FREE_SLOT", .retry_after = std::chrono::milliseconds(1000)});
}

void StateArena::Release(int32_t slot) {
  Reset(slot);
  Slot& s = slots_[slot];
  std::fill_n(s.fixed, spec_.fixed_elements(), 0.0f);
  s.used = false;
  --slots_used_;
}

void StateArena::Reset(int32_t slot) {
  Slot& s = slots_[slot];
  MNEMON_CHECK(s.used);
  for (float* block : s.blocks) {
    std::fill_n(block, block_floats_, 0.0f);
    free_blocks_.push_back(block);
    --blocks_used_;
  }
  s.blocks.clear();
  s.length = s.reserved = s.floor = s.first_block = 0;
  for (size_t e = 0; e < spec_.entries.size(); ++e) {
    if (spec_.entries[e].growth != Growth::kFixed) continue;
    std::fill_n(s.fixed + entry_offset_[e], entry_elements_[e], spec_.entries[e].fill);
  }
}

int64_t StateArena::length(int32_t slot) const { return slots_[slot].length; }

int64_t StateArena::first_held(int32_t slot) const {
  return slots_[slot].first_block * kBlockPositions;
}

int64_t StateArena::BlocksNeeded(int32_t slot, int64_t count) const {
  if (!spec_.growing()) return 0;
  const Slot& s = slots_[slot];
  const int64_t end = CeilDiv(s.length + count, kBlockPositions);
  const int64_t have = s.first_block + static_cast<int64_t>(s.blocks.size());
  return std::max<int64_t>(0, end - have);
}

absl::Status StateArena::TakeBlocks(Slot& slot, int64_t count) {
  if (count > max_blocks_ - blocks_used_) {
    return MakeError(
        absl::StatusCode::kResourceExhausted,
        StrCat("session state needs ", count, " more blocks, ",
               max_blocks_ - blocks_used_, " of ", max_blocks_, " are free"),
        {.reason = "NO_FREE_BLOCKS", .retry_after = std::chrono::milliseconds(1000)});
  }
  const size_t before = slot.blocks.size();
  try {
    ReserveAtLeast(slot.blocks, before + static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      if (free_blocks_.empty()) {
        // All of them may come back, when there may be no memory for a longer list.
        ReserveAtLeast(free_blocks_, static_cast<size_t>(blocks_made_ + 1));
        slot.blocks.push_back(memory_.TakeFloats(block_floats_));
        ++blocks_made_;
      } else {
        slot.blocks.push_back(free_blocks_.back());
        free_blocks_.pop_back();
      }
    }
  } catch (const std::bad_alloc&) {
    free_blocks_.insert(free_blocks_.end(), slot.blocks.begin() + before,
                        slot.blocks.end());
    slot.blocks.resize(before);
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "not enough memory for the state of a session",
                     {.reason = "OUT_OF_MEMORY"});
  }
  blocks_used_ += count;
  return absl::OkStatus();
}

absl::Status StateArena::Copy(int32_t from, int32_t to) {
  const Slot& source = slots_[from];
  Slot& target = slots_[to];
  MNEMON_CHECK(from != to && source.used && target.used);
  MNEMON_CHECK(target.length == 0 && target.blocks.empty());
  const size_t count = source.blocks.size();
  MNEMON_RETURN_IF_ERROR(TakeBlocks(target, static_cast<int64_t>(count)));
  for (size_t i = 0; i < count; ++i) {
    std::copy_n(source.blocks[i], block_floats_, target.blocks[i]);
  }
  std::copy_n(source.fixed, spec_.fixed_elements(), target.fixed);
  target.length = source.length;
  target.reserved = source.reserved;
  target.floor = source.floor;
  target.first_block = source.first_block;
  return absl::OkStatus();
}

absl::Status StateArena::Reserve(int32_t slot, int64_t count) {
  Slot& s = slots_[slot];
  MNEMON_CHECK(s.used && count >= 0);
  if (count > spec_.max_positions() - s.length) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     StrCat("position ", s.length + count,
                            " is beyond the state's limit of ", spec_.max_positions()),
                     {.reason = "CONTEXT_LIMIT"});
  }
  MNEMON_RETURN_IF_ERROR(TakeBlocks(s, BlocksNeeded(slot, count)));
  s.reserved = std::max(s.reserved, s.length + count);
  return absl::OkStatus();
}

void StateArena::StartAt(int32_t slot, int64_t position) {
  Slot& s = slots_[slot];
  MNEMON_CHECK(s.used && s.reserved == 0 && s.blocks.empty());
  MNEMON_CHECK(position == 0 || spec_.growth() == Growth::kRing);
  s.length = s.reserved = s.floor = position;
  s.first_block = position / kBlockPositions;
}

void StateArena::Advance(int32_t slot, int64_t count) {
  Slot& s = slots_[slot];
  MNEMON_CHECK(s.used && count >= 0 && s.length + count <= s.reserved);
  s.length += count;
}

void StateArena::Truncate(int32_t slot, int64_t length) {
  Slot& s = slots_[slot];
  MNEMON_CHECK(s.used && length >= first_held(slot) && length <= s.length);
  s.length = s.reserved = length;
  s.floor = std::min(s.floor, length);
  const int64_t keep = CeilDiv(length, kBlockPositions) - s.first_block;
  while (spec_.growing() && static_cast<int64_t>(s.blocks.size()) > keep) {
    std::fill_n(s.blocks.back(), block_floats_, 0.0f);
    free_blocks_.push_back(s.blocks.back());
    s.blocks.pop_back();
    --blocks_used_;
  }
}

void StateArena::SetFloor(int32_t slot, int64_t floor) {
  Slot& s = slots_[slot];
  MNEMON_CHECK(s.used && floor <= s.length);
  s.floor = std::max(s.floor, floor);
  if (spec_.growth() != Growth::kRing) return;
  // The query at `floor` sees rows floor - M and later.
  const int64_t oldest = std::max<int64_t>(0, s.floor - spec_.capacity());
  const int64_t first = oldest / kBlockPositions;
  while (s.first_block < first && !s.blocks.empty()) {
    std::fill_n(s.blocks.front(), block_floats_, 0.0f);
    free_blocks_.push_back(s.blocks.front());
    s.blocks.erase(s.blocks.begin());
    ++s.first_block;
    --blocks_used_;
  }
}

float* StateArena::Fixed(int32_t slot, int entry) {
  return slots_[slot].fixed + entry_offset_[entry];
}

const float* StateArena::Fixed(int32_t slot, int entry) const {
  return slots_[slot].fixed + entry_offset_[entry];
}

float* StateArena::Block(int32_t slot, int64_t block) {
  Slot& s = slots_[slot];
  const int64_t index = block - s.first_block;
  MNEMON_CHECK(index >= 0 && index < static_cast<int64_t>(s.blocks.size()));
  return s.blocks[index];
}

float* StateArena::Row(int32_t slot, int entry, int64_t position) {
  return const_cast<float*>(std::as_const(*this).Row(slot, entry, position));
}

const float* StateArena::Row(int32_t slot, int entry, int64_t position) const {
  const Slot& s = slots_[slot];
  const int64_t block = position / kBlockPositions - s.first_block;
  MNEMON_CHECK(block >= 0 && position < s.reserved);
  MNEMON_CHECK(spec_.entries[entry].layout == BlockLayout::kRows);
  return s.blocks[block] + entry_offset_[entry] +
         position % kBlockPositions * entry_elements_[entry];
}

void StateArena::SaveFixed(int32_t slot, std::vector<float>& saved) const {
  const float* fixed = slots_[slot].fixed;
  saved.assign(fixed, fixed + spec_.fixed_elements());
}

void StateArena::RestoreFixed(int32_t slot, const std::vector<float>& saved,
                              int64_t length) {
  Slot& s = slots_[slot];
  MNEMON_CHECK(static_cast<int64_t>(saved.size()) == spec_.fixed_elements());
  std::copy(saved.begin(), saved.end(), s.fixed);
  if (!spec_.growing()) s.length = s.reserved = length;
}

}  // namespace mnemon
