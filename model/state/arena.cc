// SPDX-License-Identifier: MIT
#include "model/state/arena.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/memory/reserve.h"
#include "base/partition.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/compute/kernels.h"
#include "model/state/host_memory.h"

namespace mnemon {
namespace {

// Twice the lead that a stream may have over delivery: rows that a ring keeps beyond M.
constexpr int64_t kRingSlack = 2 * kMaxChunk;

int64_t BlocksPerSlot(const StateSpec& spec) {
  switch (spec.growth()) {
    case Growth::kFixed:
      return 0;
    case Growth::kRing:
      return BlocksOf(spec.capacity() + kRingSlack) + 1;
    case Growth::kAppend:
      return BlocksOf(spec.capacity());
  }
  return 0;
}

int64_t BlocksPerSavedState(const StateSpec& spec) {
  return spec.growth() == Growth::kRing ? BlocksOf(spec.capacity()) + 1 : 0;
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
      memory_(options.memory == nullptr ? MakeHostMemory() : options.memory),
      pools_(spec_, {.blocks = max_blocks,
                     .slots = options.slots,
                     .bytes = options.bytes,
                     .memory = memory_.get(),
                     .recycler = options.recycler,
                     .account = options.account,
                     .reserve_bytes = options.reserve_bytes,
                     .on_clean = options.on_clean}),
      saved_(*this) {
  for (size_t e = 0; e < spec_.entries.size(); ++e) {
    entry_elements_.push_back(spec_.entries[e].elements());
    entry_offset_.push_back(spec_.offset(e));
  }
}

StateArena::~StateArena() = default;

int64_t StateArena::bytes_used(int32_t slot) const {
  return pools_.BytesOf(/*fixed=*/true, slots_[slot].blocks());
}

absl::StatusOr<int32_t> StateArena::Acquire() try {
  if (slots_used() == max_slots_) {
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
  StateSlot& s = slots_[slot];
  MNEMON_RETURN_IF_ERROR(pools_.BeginSlot(s));
  free_slot_ = s.next_free;
  s.used = true;
  return slot;
} catch (const std::bad_alloc&) {
  return StatePools::OutOfMemory();
}

void StateArena::Release(int32_t slot) {
  StateSlot& s = slots_[slot];
  MNEMON_CHECK(s.used);
  pools_.EndSlot(s);
  s = {.next_free = free_slot_, .list = std::move(s.list)};
  free_slot_ = slot;
}

void StateArena::Reset(int32_t slot) {
  StateSlot& s = slots_[slot];
  MNEMON_CHECK(s.used);
  pools_.DropBlocks(s, {0, s.blocks()});
  s.length = s.reserved = s.floor = s.first_block = s.start = 0;
  pools_.PutFixed(s, pools_.blank());
}

int64_t StateArena::first_held(int32_t slot) const {
  const StateSlot& s = slots_[slot];
  return std::max(s.first_block * kBlockPositions, s.start);
}

bool StateArena::WritesShared(const StateSlot& slot) const {
  const int64_t last = slot.length / kBlockPositions - slot.first_block;
  return slot.length % kBlockPositions != 0 && last < slot.blocks() &&
         pools_.growing()->shared((*slot.list)[last]);
}

int64_t StateArena::BlocksNeeded(int32_t slot, int64_t count) const {
  if (!spec_.growing() || count == 0) return 0;
  const StateSlot& s = slots_[slot];
  const int64_t end = BlocksOf(s.length + count);
  return std::max<int64_t>(0, end - s.first_block - s.blocks()) + WritesShared(s);
}

int64_t StateArena::UnsharedBlocks(int32_t slot, int64_t most) const {
  return pools_.Unshared(slots_[slot].list.get(), most);
}

absl::Status StateArena::TakeBlocks(StateSlot& slot, int64_t count, bool copy,
                                    BlockCopies& copies) {
  const int64_t taken = count + copy;
  const int64_t free = pools_.blocks() - pools_.blocks_used();
  if (taken > free) return pools_.NoFreeBlocks(taken, free);
  const int64_t before = slot.blocks();
  try {
    if (slot.list == nullptr) slot.list = std::make_unique<BlockList>();
    slot.list->Reserve(before + taken);
    ReserveAtLeast(copies.copies_, copies.copies_.size() + copy);
    for (int64_t i = 0; i < taken; ++i) {
      StateBlock* const block = pools_.growing()->Take();
      if (block == nullptr) {
        pools_.DropBlocks(slot, {before, slot.blocks()});
        return pools_.NoFreeBlocks(taken, i);
      }
      slot.list->Push(block);
    }
  } catch (const std::bad_alloc&) {
    pools_.DropBlocks(slot, {before, slot.blocks()});
    return StatePools::OutOfMemory();
  }
  if (!copy) return absl::OkStatus();
  BlockList& list = *slot.list;
  const int64_t shared = slot.length / kBlockPositions - slot.first_block;
  StateBlock* const own = list.Pop();
  copies.copies_.push_back({.from = list[shared],
                            .to = own,
                            .floats = pools_.block_floats(),
                            .pool = pools_.growing()});
  copies.floats_ += pools_.block_floats();
  list.Put(shared, own);
  return absl::OkStatus();
}

absl::Status StateArena::OwnFixed(StateSlot& slot, BlockCopies& copies) {
  BlockPool* const fixed = pools_.fixed();
  if (fixed == nullptr || !fixed->shared(slot.fixed)) return absl::OkStatus();
  ReserveAtLeast(copies.copies_, copies.copies_.size() + 1);
  StateBlock* const own = fixed->Take();
  if (own == nullptr) return StatePools::NoFreeFixed();
  copies.copies_.push_back({.from = std::exchange(slot.fixed, own),
                            .to = own,
                            .floats = pools_.fixed_floats(),
                            .pool = fixed});
  copies.floats_ += pools_.fixed_floats();
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
  StateSlot& s = slots_[slot];
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
    const int64_t end = BlocksOf(s.length + count);
    const int64_t more = std::max<int64_t>(0, end - s.first_block - s.blocks());
    MNEMON_RETURN_IF_ERROR(TakeBlocks(s, more, /*copy=*/needed > more, copies));
  }
  s.reserved = std::max(s.reserved, s.length + count);
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return StatePools::OutOfMemory();
}

void StateArena::StartAt(int32_t slot, int64_t position) {
  StateSlot& s = slots_[slot];
  MNEMON_CHECK(s.used && s.reserved == 0 && s.blocks() == 0);
  MNEMON_CHECK(position == 0 || spec_.growth() == Growth::kRing);
  s.length = s.reserved = s.floor = s.start = position;
  s.first_block = position / kBlockPositions;
}

void StateArena::Advance(int32_t slot, int64_t count) {
  StateSlot& s = slots_[slot];
  MNEMON_CHECK(s.used && count >= 0 && s.length + count <= s.reserved);
  s.length += count;
}

void StateArena::Truncate(int32_t slot, int64_t length) {
  StateSlot& s = slots_[slot];
  MNEMON_CHECK(s.used && length >= first_held(slot) && length <= s.length);
  s.length = s.reserved = length;
  s.floor = std::min(s.floor, length);
  pools_.DropBlocks(s, {BlocksOf(length) - s.first_block, s.blocks()});
}

void StateArena::SetFloor(int32_t slot, int64_t floor) {
  StateSlot& s = slots_[slot];
  MNEMON_CHECK(s.used && floor <= s.length);
  s.floor = std::max(s.floor, floor);
  if (spec_.growth() != Growth::kRing) return;
  // The query at `floor` sees rows floor - M and later.
  const int64_t oldest = std::max<int64_t>(0, s.floor - spec_.capacity());
  const int64_t unseen =
      std::clamp<int64_t>(oldest / kBlockPositions - s.first_block, 0, s.blocks());
  pools_.DropBlocks(s, {0, unseen});
  s.first_block += unseen;
}

absl::Status StateArena::Fork(int32_t from, int32_t to) try {
  StateSlot& source = slots_[from];
  StateSlot& target = slots_[to];
  MNEMON_CHECK(from != to && source.used && target.used);
  MNEMON_CHECK(target.length == 0 && target.blocks() == 0);
  const int64_t end =
      std::min(source.blocks(), BlocksOf(source.length) - source.first_block);
  target.list = pools_.Share(source.list.get(), {0, end});
  pools_.PutFixed(target, source.fixed);
  source.reserved = source.length;
  target.length = target.reserved = source.length;
  target.floor = source.floor;
  target.first_block = source.first_block;
  target.start = source.start;
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return StatePools::OutOfMemory();
}

float* StateArena::Fixed(int32_t slot, int entry) {
  MNEMON_CHECK(!pools_.fixed()->shared(slots_[slot].fixed));
  return slots_[slot].fixed->floats + entry_offset_[entry];
}

const float* StateArena::Fixed(int32_t slot, int entry) const {
  return slots_[slot].fixed->floats + entry_offset_[entry];
}

std::span<const float> StateArena::FixedEntries(int32_t slot) const {
  if (pools_.fixed() == nullptr) return {};
  return {slots_[slot].fixed->floats, static_cast<size_t>(pools_.fixed_floats())};
}

float* StateArena::Row(int32_t slot, int entry, int64_t position) {
  return const_cast<float*>(std::as_const(*this).Row(slot, entry, position));
}

const float* StateArena::Row(int32_t slot, int entry, int64_t position) const {
  const StateSlot& s = slots_[slot];
  const int64_t block = position / kBlockPositions - s.first_block;
  MNEMON_CHECK(block >= 0 && position < s.reserved);
  MNEMON_CHECK(spec_.entries[entry].layout == BlockLayout::kRows);
  return s.list->table()[block] + entry_offset_[entry] +
         position % kBlockPositions * entry_elements_[entry];
}

}  // namespace mnemon
