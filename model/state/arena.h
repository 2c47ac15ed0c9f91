// SPDX-License-Identifier: MIT
// The memory of all sessions of one decoder: slots, and one pool of blocks of
// kBlockPositions rows. A slot holds a list of blocks; its fixed entries are one block
// of their own. Nothing wraps around or is overwritten: a chunk is appended before it
// is attended to. Truncated rows may be written again.
//
// Copy on write: blocks have reference counts, and fresh slots, forks and saved states
// share them. A step writes the fixed entries, and rows into the last, partly filled
// block of a slot and after it; if another holder shares one of these blocks, Reserve
// replaces it with a copy. Nothing else copies.
//
// Layout of a growing block: for each growing entry in spec order, kBlockPositions
// rows. Layout of the fixed block: the fixed entries in spec order. StateSpec::offset
// says where an entry starts.
//
// The numbers of all blocks lie in a StateMemory; the arena reads and writes them only
// through its calls. Fixed, FixedEntries, Row and Table return addresses in that
// memory, which the host may dereference only if it is host memory.
//
// Threads: one thread, the model runner's, owns an arena and makes all calls, including
// those of its pools and saved states. With a recycler, freed blocks are cleaned on the
// recycler's thread, which also calls on_clean; without one, by the caller. Cost, with
// a recycler: only Reserve, whose copies can be divided among threads (BlockCopies),
// and the very first Acquire do work proportional to the size of a block; Fork, and for
// a ring Save and Restore, count one reference per block; lists of more than
// BlockPool::kDropsInPlace blocks are freed in constant time, a long tail of one by
// copying its pointers.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/state/block_pool.h"
#include "model/state/saved_states.h"
#include "model/state/state.h"
#include "model/state/state_memory.h"
#include "model/state/state_pools.h"
#include "model/state/state_slot.h"

namespace mnemon {

// Copies that reservations need before their slots are used.
class BlockCopies {
 public:
  bool empty() const { return copies_.empty(); }
  int64_t bytes() const { return floats_ * static_cast<int64_t>(sizeof(float)); }
  // Makes part `part` of `parts` equal parts. Different parts may run on any threads at
  // once.
  void Make(int part, int parts) const;

 private:
  friend class StateArena;

  struct Copy {
    StateBlock* from;  // held until Finish
    StateBlock* to;
    int64_t floats;
    BlockPool* pool;
  };
  std::vector<Copy> copies_;
  int64_t floats_ = 0;
};

// Addresses of the blocks of a slot.
struct BlockTable {
  float* const* blocks = nullptr;  // of positions 16 b .. 16 b + 15, by b - base
  int64_t base = 0;                // the first held block
  int64_t count = 0;               // held blocks

  // REQUIRES: the block is held or reserved.
  float* block(int64_t b) const { return blocks[b - base]; }
};

class StateArena {
 public:
  struct Options {
    int32_t slots = 0;  // at least 1; an unused slot costs nothing
    // Growing blocks in the pool; 0 = enough for every slot at the spec's capacity
    // (a ring: ceil((M + 128) / 16) + 1 per slot, and ceil(M / 16) + 1 per saved
    // state). Memory is taken from the system when a block is used.
    int64_t blocks = 0;
    int32_t saved_states = 0;  // most at once, for blocks = 0
    // Limit of the bytes of states, as bytes_used() counts them, that growing blocks
    // may fill; 0 = limited only by `blocks`. Not enforced here: callers that acquire
    // slots and make whole states check StatePools::bytes_left().
    int64_t bytes = 0;
    // For this arena alone; null: host memory. Must be what the decoder computes in:
    // Decoder::MakeStateMemory.
    std::shared_ptr<StateMemory> memory = nullptr;
    // Must outlive the arena. Null: freed blocks are cleaned by the caller, and their
    // memory is kept.
    BlockRecycler* recycler = nullptr;
    // Counts the memory taken from the system, and may limit it; must outlive the
    // arena. Null: not counted.
    ByteAccount* account = nullptr;
    // Bytes of unused blocks that each pool keeps; absent: 64 MiB, or an eighth of the
    // pool if that is more.
    std::optional<int64_t> reserve_bytes = std::nullopt;
    // Called on the recycler's thread after blocks became clean or stopped being
    // recycled. Must be cheap and must not call the arena or the recycler.
    std::function<void()> on_clean;
  };

  // INVALID_ARGUMENT for a bad spec or sizes that overflow.
  static absl::StatusOr<std::unique_ptr<StateArena>> Create(const StateSpec& spec,
                                                            const Options& options);
  // Waits for at most one batch of the recycler: no lock that on_clean takes may be
  // held.
  ~StateArena();
  StateArena(const StateArena&) = delete;
  StateArena& operator=(const StateArena&) = delete;

  const StateSpec& spec() const { return spec_; }
  StateMemory& memory() const { return *memory_; }
  StatePools& pools() { return pools_; }
  const StatePools& pools() const { return pools_; }
  // States kept of slots.
  SavedStates& saved() { return saved_; }
  const SavedStates& saved() const { return saved_; }
  int32_t slots() const { return max_slots_; }
  int32_t slots_used() const { return static_cast<int32_t>(pools_.slots_used()); }
  // Upper bound of all slots ever used.
  int32_t slots_seen() const { return static_cast<int32_t>(slots_.size()); }
  // Bytes held by one acquired slot, shared blocks included.
  int64_t bytes_used(int32_t slot) const;

  // A fresh state: length 0, fixed entries as filled. RESOURCE_EXHAUSTED when no slot
  // is free or no memory.
  absl::StatusOr<int32_t> Acquire();
  // Frees the slot and its blocks. REQUIRES: acquired.
  void Release(int32_t slot);
  // Resets to a fresh state; the slot stays acquired.
  void Reset(int32_t slot);
  // Makes the fresh slot `to` a copy of `from` that shares its blocks. Rows that `from`
  // had reserved beyond its length must be reserved again. RESOURCE_EXHAUSTED without
  // memory; `to` is then still fresh. REQUIRES: both acquired and different.
  absl::Status Fork(int32_t from, int32_t to);

  // Tokens that this slot has computed, which is the absolute position of the next.
  int64_t length(int32_t slot) const { return slots_[slot].length; }
  // First position whose row is still held: 0 unless a ring has freed blocks, or the
  // slot began later (StartAt).
  int64_t first_held(int32_t slot) const;

  // Blocks that Reserve(slot, count) would take from the pool, including the copy of a
  // shared last block. With a recycler it can drop by one on its own.
  int64_t BlocksNeeded(int32_t slot, int64_t count) const;
  // Blocks of the slot that no other holder shares, counted up to `most`: so many
  // become free when the slot is released.
  int64_t UnsharedBlocks(int32_t slot, int64_t most) const;
  // Makes room for rows length .. length+count-1. If count > 0, no other holder shares
  // those and the fixed entries afterwards: they can be written. RESOURCE_EXHAUSTED if
  // the pool has too few blocks or without memory, FAILED_PRECONDITION beyond an append
  // capacity; on error nothing changes. Idempotent for the same range.
  absl::Status Reserve(int32_t slot, int64_t count);
  // The same, but copies are added to `copies`. The caller has them made after what was
  // computed so far and before any use of a slot reserved this way, then calls Finish.
  // In case of an error, too, the copies added so far must be made.
  absl::Status Reserve(int32_t slot, int64_t count, BlockCopies& copies);
  // Empties `copies`. REQUIRES: all parts are made.
  void Finish(BlockCopies& copies);
  // Makes a fresh slot start at `position`, as if the rows before it had been written
  // and freed: for a state from elsewhere. REQUIRES: length 0, no rows reserved;
  // position 0 unless the growth is a ring.
  void StartAt(int32_t slot, int64_t position);
  // Declares `count` reserved rows written. REQUIRES: reserved.
  void Advance(int32_t slot, int64_t count);
  // Truncates growing entries to `length` tokens and frees the blocks beyond. Fixed
  // entries are unchanged: see RestoreFixed. REQUIRES: first_held <= length <=
  // length(slot).
  void Truncate(int32_t slot, int64_t length);
  // Declares that no query at a position below `floor` follows, and frees the blocks of
  // a ring that only such queries could see. No effect on append and fixed.
  void SetFloor(int32_t slot, int64_t floor);

  // Fixed entry `entry` of the spec: elements() floats. To write them REQUIRES:
  // reserved, and not forked or saved since.
  float* Fixed(int32_t slot, int entry);
  const float* Fixed(int32_t slot, int entry) const;
  // All fixed entries in spec order.
  std::span<const float> FixedEntries(int32_t slot) const;
  // Row of growing entry `entry` at an absolute position, held or reserved: elements()
  // floats. The rows of one block are contiguous.
  float* Row(int32_t slot, int entry, int64_t position);
  const float* Row(int32_t slot, int entry, int64_t position) const;

  // The blocks of a slot, held or reserved, for decoders with their own layout of an
  // entry (StateEntry::layout). The slot keeps the table and changes it in place, so
  // this call is free; valid until the next call that reserves for the slot or changes
  // its state. Slots with blocks have different tables.
  BlockTable Table(int32_t slot) const {
    const StateSlot& s = slots_[slot];
    return {.blocks = s.list ? s.list->table() : nullptr,
            .base = s.first_block,
            .count = s.blocks()};
  }

  // The first block of Table(slot) that was added since the last call, counted from its
  // base; any after it may be new as well. For a single keeper of copies of the tables.
  int64_t TakeFirstNew(int32_t slot) {
    return slots_[slot].list ? slots_[slot].list->TakeFirstNew() : 0;
  }

 private:
  friend class SavedStates;  // slots_

  StateArena(const StateSpec& spec, const Options& options, int64_t max_blocks);
  // Replaces the fixed entries if others hold them too. RESOURCE_EXHAUSTED without
  // effect. Throws std::bad_alloc.
  absl::Status OwnFixed(StateSlot& slot, BlockCopies& copies);
  // Appends `count` blocks to a slot's list; with `copy`, also replaces the block of
  // the slot's next row. No effect on error.
  absl::Status TakeBlocks(StateSlot& slot, int64_t count, bool copy,
                          BlockCopies& copies);
  // Whether rows from the slot's length on go into a shared block.
  bool WritesShared(const StateSlot& slot) const;

  const StateSpec spec_;
  const int32_t max_slots_;
  std::vector<int64_t> entry_offset_;  // floats; within the fixed or growing block
  std::vector<int64_t> entry_elements_;
  const std::shared_ptr<StateMemory> memory_;
  StatePools pools_;
  SavedStates saved_;
  BlockCopies copies_;           // of a Reserve that makes its copies itself
  std::deque<StateSlot> slots_;  // all slots ever used
  int32_t free_slot_ = -1;       // head of a list through next_free
};

}  // namespace mnemon
