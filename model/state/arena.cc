// SPDX-License-Identifier: MIT
#include "model/state/arena.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/partition.h"
#include "base/reserve.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/compute/kernels.h"
#include "model/state/host_memory.h"

namespace mnemon {
namespace {

// How far a stream may run ahead of delivery, twice: the rows a ring keeps beyond M.
constexpr int64_t kRingSlack = 2 * kMaxChunk;

// What a pool keeps of the memory that nobody uses, at least, and this part of it.
constexpr int64_t kReserveBytes = int64_t{64} << 20;
constexpr int64_t kReservePart = 8;

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

int64_t BlocksPerSavedState(const StateSpec& spec) {
  return spec.growth() == Growth::kRing ? CeilDiv(spec.capacity(), kBlockPositions) + 1
                                        : 0;
}

}  // namespace

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
  if (options.saved_states < 0) {
    return InvalidField(
        "saved_states",
        StrCat("saved_states must not be negative, got ", options.saved_states));
  }
  int64_t blocks = options.blocks;
  if (blocks == 0) {
    int64_t saved = 0;
    if (__builtin_mul_overflow(BlocksPerSlot(spec), int64_t{options.slots}, &blocks) ||
        __builtin_mul_overflow(BlocksPerSavedState(spec), int64_t{options.saved_states},
                               &saved) ||
        __builtin_add_overflow(blocks, saved, &blocks)) {
      return InvalidField("slots", "slots times blocks per slot overflows");
    }
  }
  return std::unique_ptr<StateArena>(new StateArena(spec, options, blocks));
}

StateArena::StateArena(const StateSpec& spec, const Options& options,
                       int64_t max_blocks)
    : spec_(spec),
      max_slots_(options.slots),
      max_blocks_(max_blocks),
      max_bytes_(options.bytes > 0 ? options.bytes : INT64_MAX),
      block_floats_(spec.row_elements() * kBlockPositions),
      fixed_floats_(spec.fixed_elements()),
      memory_(options.memory == nullptr ? MakeHostMemory() : options.memory) {
  for (size_t e = 0; e < spec_.entries.size(); ++e) {
    entry_elements_.push_back(spec_.entries[e].elements());
    entry_offset_.push_back(spec_.offset(e));
  }
  const auto reserve = [&](int64_t floats, int64_t count) {
    return options.reserve_bytes.value_or(
        std::max(kReserveBytes,
                 floats * static_cast<int64_t>(sizeof(float)) / kReservePart * count));
  };
  if (block_floats_ > 0) {
    blocks_ = std::make_unique<BlockPool>(
        BlockPool::Options{.floats = block_floats_,
                           .most = max_blocks_,
                           .memory = memory_.get(),
                           .recycler = options.recycler,
                           .on_clean = options.on_clean,
                           .account = options.account,
                           .reserve_bytes = reserve(block_floats_, max_blocks_)});
  }
  if (fixed_floats_ > 0) {
    fixed_ = std::make_unique<BlockPool>(
        BlockPool::Options{.floats = fixed_floats_,
                           .most = INT64_MAX,
                           .memory = memory_.get(),
                           .overwritten = true,
                           .recycler = options.recycler,
                           .on_clean = options.on_clean,
                           .account = options.account,
                           .reserve_bytes = reserve(fixed_floats_, max_slots_)});
  }
}

StateArena::~StateArena() = default;

int64_t StateArena::BlocksOf(int64_t length) {
  return CeilDiv(length, kBlockPositions);
}

absl::Status StateArena::OutOfMemory() {
  return OutOfMemoryError("the state of a session");
}

bool StateArena::MakeBlank() {
  blank_ = fixed_->Take();
  if (blank_ == nullptr) return false;
  for (size_t e = 0; e < spec_.entries.size(); ++e) {
    if (spec_.entries[e].growth != Growth::kFixed) continue;
    fixed_->memory().Fill(blank_->floats + entry_offset_[e], entry_elements_[e],
                          spec_.entries[e].fill);
  }
  return true;
}

int64_t StateArena::FixedUsed() const {
  if (!fixed_) return 0;
  // A slot will write into a block of its own; of whole states no more can be different
  // than there are blocks.
  const int64_t blocks = fixed_->held() - (blank_ != nullptr ? 1 : 0);
  return slots_used_ + std::min(wholes_, blocks);
}

int64_t StateArena::bytes_used() const {
  return static_cast<int64_t>(sizeof(float)) *
         (FixedUsed() * fixed_floats_ + blocks_used() * block_floats_);
}

int64_t StateArena::bytes_left() const { return max_bytes_ - bytes_used(); }

int64_t StateArena::shadow_bytes() const {
  if (!fixed_ || blank_ == nullptr) return 0;
  const int64_t copies = fixed_->held() - 1 - FixedUsed();
  return std::max<int64_t>(0, copies) * fixed_floats_ *
         static_cast<int64_t>(sizeof(float));
}

int64_t StateArena::FreeBlocks(int64_t wanted) try {
  if (!blocks_) return 0;
  const int64_t bytes = block_floats_ * static_cast<int64_t>(sizeof(float));
  return std::min(blocks_->Secure(wanted), std::max<int64_t>(0, bytes_left() / bytes));
} catch (const std::bad_alloc&) {
  return 0;
}

int64_t StateArena::FreeFixed(int64_t wanted) try {
  if (!fixed_) return wanted;
  // The first Acquire takes one more.
  const int64_t blank = wanted > 0 && blank_ == nullptr ? 1 : 0;
  return fixed_->Secure(wanted + blank) - blank;
} catch (const std::bad_alloc&) {
  return 0;
}

void StateArena::SetAside(int64_t blocks, int64_t fixed) try {
  if (blocks_) blocks_->Stock(blocks);
  if (fixed_) fixed_->Stock(fixed);
} catch (const std::bad_alloc&) {
  // Reported when they are taken.
}

void StateArena::DropBlank() {
  if (slots_used_ == 0 && blank_ != nullptr) {
    fixed_->Drop(std::exchange(blank_, nullptr));
  }
}

int64_t StateArena::bytes_used(int32_t slot) const {
  return static_cast<int64_t>(sizeof(float)) *
         (fixed_floats_ + slots_[slot].blocks() * block_floats_);
}

absl::StatusOr<int32_t> StateArena::Acquire() try {
  if (slots_used_ == max_slots_) {
    return MakeError(
        absl::StatusCode::kResourceExhausted,
        StrCat("all ", slots(), " session slots are in use"),
        {.reason = "NO_FREE_SLOT", .retry_after = std::chrono::milliseconds(1000)});
  }
  if (free_slot_ < 0) {
    slots_.emplace_back();
    free_slot_ = static_cast<int32_t>(slots_.size()) - 1;
  }
  const int32_t slot = free_slot_;
  Slot& s = slots_[slot];
  if (fixed_) {
    if (blank_ == nullptr && !MakeBlank()) return NoFreeFixed();
    fixed_->Hold(s.fixed = blank_);
  }
  free_slot_ = s.next_free;
  s.used = true;
  ++slots_used_;
  return slot;
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

void StateArena::DropBlocks(Slot& slot, Range range) {
  if (range.size() > 0) blocks_->Drop(slot.list, range.begin, range.end);
}

void StateArena::Release(int32_t slot) {
  Slot& s = slots_[slot];
  MNEMON_CHECK(s.used);
  DropBlocks(s, {0, s.blocks()});
  if (fixed_) fixed_->Drop(s.fixed);
  s = {.next_free = free_slot_, .list = std::move(s.list)};
  free_slot_ = slot;
  --slots_used_;
}

void StateArena::Reset(int32_t slot) {
  Slot& s = slots_[slot];
  MNEMON_CHECK(s.used);
  DropBlocks(s, {0, s.blocks()});
  s.length = s.reserved = s.floor = s.first_block = s.start = 0;
  PutFixed(s, blank_);
}

void StateArena::PutFixed(Slot& slot, StateBlock* fixed) {
  if (!fixed_) return;
  fixed_->Hold(fixed);
  fixed_->Drop(std::exchange(slot.fixed, fixed));
}

int64_t StateArena::first_held(int32_t slot) const {
  const Slot& s = slots_[slot];
  return std::max(s.first_block * kBlockPositions, s.start);
}

bool StateArena::WritesShared(const Slot& slot) const {
  const int64_t last = slot.length / kBlockPositions - slot.first_block;
  return slot.length % kBlockPositions != 0 && last < slot.blocks() &&
         blocks_->shared((*slot.list)[last]);
}

int64_t StateArena::BlocksNeeded(int32_t slot, int64_t count) const {
  if (!spec_.growing() || count == 0) return 0;
  const Slot& s = slots_[slot];
  const int64_t end = CeilDiv(s.length + count, kBlockPositions);
  return std::max<int64_t>(0, end - s.first_block - s.blocks()) + WritesShared(s);
}

int64_t StateArena::Unshared(const BlockList* list, int64_t most) const {
  int64_t count = 0;
  for (int64_t i = 0; list != nullptr && i < list->size() && count < most; ++i) {
    if (!blocks_->shared((*list)[i])) ++count;
  }
  return count;
}

int64_t StateArena::UnsharedBlocks(int32_t slot, int64_t most) const {
  return Unshared(slots_[slot].list.get(), most);
}

absl::Status StateArena::NoFreeBlocks(int64_t needed, int64_t free) const {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      StrCat("session state needs ", needed, " more blocks, ", free, " of ",
             max_blocks_, " are free"),
      {.reason = "NO_FREE_BLOCKS", .retry_after = std::chrono::milliseconds(1000)});
}

absl::Status StateArena::NoFreeFixed() {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      "no memory is left for the fixed entries of session state",
      {.reason = "NO_FREE_BLOCKS", .retry_after = std::chrono::milliseconds(1000)});
}

absl::Status StateArena::TakeBlocks(Slot& slot, int64_t count, bool copy,
                                    BlockCopies& copies) {
  const int64_t taken = count + copy;
  const int64_t free = max_blocks_ - blocks_->used();
  if (taken > free) return NoFreeBlocks(taken, free);
  const int64_t before = slot.blocks();
  try {
    if (slot.list == nullptr) slot.list = std::make_unique<BlockList>();
    slot.list->Reserve(before + taken);
    ReserveAtLeast(copies.copies_, copies.copies_.size() + copy);
    for (int64_t i = 0; i < taken; ++i) {
      StateBlock* const block = blocks_->Take();
      if (block == nullptr) {
        DropBlocks(slot, {before, slot.blocks()});
        return NoFreeBlocks(taken, i);
      }
      slot.list->Push(block);
    }
  } catch (const std::bad_alloc&) {
    DropBlocks(slot, {before, slot.blocks()});
    return OutOfMemory();
  }
  if (!copy) return absl::OkStatus();
  BlockList& list = *slot.list;
  const int64_t shared = slot.length / kBlockPositions - slot.first_block;
  StateBlock* const own = list.Pop();
  copies.copies_.push_back({.from = list[shared],
                            .to = own,
                            .floats = block_floats_,
                            .pool = blocks_.get()});
  copies.floats_ += block_floats_;
  list.Put(shared, own);
  return absl::OkStatus();
}

absl::Status StateArena::OwnFixed(Slot& slot, BlockCopies& copies) {
  if (!fixed_ || !fixed_->shared(slot.fixed)) return absl::OkStatus();
  ReserveAtLeast(copies.copies_, copies.copies_.size() + 1);
  StateBlock* const own = fixed_->Take();
  if (own == nullptr) return NoFreeFixed();
  copies.copies_.push_back({.from = std::exchange(slot.fixed, own),
                            .to = own,
                            .floats = fixed_floats_,
                            .pool = fixed_.get()});
  copies.floats_ += fixed_floats_;
  return absl::OkStatus();
}

void BlockCopies::Make(int part, int parts) const {
  const Part mine = PartOf(floats_, part, parts);
  int64_t begin = mine.begin;
  int64_t left = mine.size();
  for (const Copy& copy : copies_) {
    if (left == 0) return;
    if (begin < copy.floats) {
      const int64_t count = std::min(left, copy.floats - begin);
      copy.pool->memory().Copy(copy.from->floats + begin, copy.to->floats + begin,
                               count);
      left -= count;
    }
    begin = std::max<int64_t>(0, begin - copy.floats);
  }
}

void StateArena::Finish(BlockCopies& copies) {
  for (const BlockCopies::Copy& copy : copies.copies_) copy.pool->DropInStep(copy.from);
  copies.copies_.clear();
  copies.floats_ = 0;
}

absl::Status StateArena::Reserve(int32_t slot, int64_t count) {
  const absl::Status status = Reserve(slot, count, copies_);
  copies_.Make(0, 1);
  Finish(copies_);
  return status;
}

absl::Status StateArena::Reserve(int32_t slot, int64_t count, BlockCopies& copies) try {
  Slot& s = slots_[slot];
  MNEMON_CHECK(s.used && count >= 0);
  if (count > spec_.max_positions() - s.length) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     StrCat("position ", s.length + count,
                            " is beyond the state's limit of ", spec_.max_positions()),
                     {.reason = "CONTEXT_LIMIT"});
  }
  if (count == 0) return absl::OkStatus();
  MNEMON_RETURN_IF_ERROR(OwnFixed(s, copies));
  if (const int64_t needed = BlocksNeeded(slot, count); needed > 0) {
    const int64_t end = CeilDiv(s.length + count, kBlockPositions);
    const int64_t more = std::max<int64_t>(0, end - s.first_block - s.blocks());
    MNEMON_RETURN_IF_ERROR(TakeBlocks(s, more, /*copy=*/needed > more, copies));
  }
  s.reserved = std::max(s.reserved, s.length + count);
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

void StateArena::StartAt(int32_t slot, int64_t position) {
  Slot& s = slots_[slot];
  MNEMON_CHECK(s.used && s.reserved == 0 && s.blocks() == 0);
  MNEMON_CHECK(position == 0 || spec_.growth() == Growth::kRing);
  s.length = s.reserved = s.floor = s.start = position;
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
  DropBlocks(s, {CeilDiv(length, kBlockPositions) - s.first_block, s.blocks()});
}

void StateArena::SetFloor(int32_t slot, int64_t floor) {
  Slot& s = slots_[slot];
  MNEMON_CHECK(s.used && floor <= s.length);
  s.floor = std::max(s.floor, floor);
  if (spec_.growth() != Growth::kRing) return;
  // The query at `floor` sees rows floor - M and later.
  const int64_t oldest = std::max<int64_t>(0, s.floor - spec_.capacity());
  const int64_t unseen =
      std::clamp<int64_t>(oldest / kBlockPositions - s.first_block, 0, s.blocks());
  DropBlocks(s, {0, unseen});
  s.first_block += unseen;
}

StateArena::Range StateArena::Visible(const Slot& slot, int64_t length) const {
  const int64_t end =
      std::min(slot.blocks(), CeilDiv(length, kBlockPositions) - slot.first_block);
  if (spec_.growth() != Growth::kRing) return {0, end};
  const int64_t oldest = std::max<int64_t>(0, length - spec_.capacity());
  return {std::clamp<int64_t>(oldest / kBlockPositions - slot.first_block, 0, end),
          end};
}

std::unique_ptr<BlockList> StateArena::Share(const BlockList* list, Range range) {
  if (range.size() <= 0) return nullptr;
  auto shared = std::make_unique<BlockList>();
  shared->Assign(*list, range.begin, range.end);
  for (int64_t i = 0; i < shared->size(); ++i) blocks_->Hold((*shared)[i]);
  return shared;
}

absl::Status StateArena::Fork(int32_t from, int32_t to) try {
  Slot& source = slots_[from];
  Slot& target = slots_[to];
  MNEMON_CHECK(from != to && source.used && target.used);
  MNEMON_CHECK(target.length == 0 && target.blocks() == 0);
  const int64_t end = std::min(
      source.blocks(), CeilDiv(source.length, kBlockPositions) - source.first_block);
  target.list = Share(source.list.get(), {0, end});
  PutFixed(target, source.fixed);
  source.reserved = source.length;
  target.length = target.reserved = source.length;
  target.floor = source.floor;
  target.first_block = source.first_block;
  target.start = source.start;
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

float* StateArena::Fixed(int32_t slot, int entry) {
  MNEMON_CHECK(!fixed_->shared(slots_[slot].fixed));
  return slots_[slot].fixed->floats + entry_offset_[entry];
}

const float* StateArena::Fixed(int32_t slot, int entry) const {
  return slots_[slot].fixed->floats + entry_offset_[entry];
}

std::span<const float> StateArena::FixedEntries(int32_t slot) const {
  if (!fixed_) return {};
  return {slots_[slot].fixed->floats, static_cast<size_t>(fixed_floats_)};
}

float* StateArena::Row(int32_t slot, int entry, int64_t position) {
  return const_cast<float*>(std::as_const(*this).Row(slot, entry, position));
}

const float* StateArena::Row(int32_t slot, int entry, int64_t position) const {
  const Slot& s = slots_[slot];
  const int64_t block = position / kBlockPositions - s.first_block;
  MNEMON_CHECK(block >= 0 && position < s.reserved);
  MNEMON_CHECK(spec_.entries[entry].layout == BlockLayout::kRows);
  return s.list->table()[block] + entry_offset_[entry] +
         position % kBlockPositions * entry_elements_[entry];
}

}  // namespace mnemon
