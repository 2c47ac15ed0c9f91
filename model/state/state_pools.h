// SPDX-License-Identifier: MIT
// The blocks of a StateArena: those of growing entries, those of fixed entries, and
// what is held of both. Threads as the arena.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "model/state/block_pool.h"
#include "model/state/state.h"
#include "model/state/state_memory.h"
#include "model/state/state_slot.h"

namespace mnemon {

class StatePools {
 public:
  struct Options {
    int64_t blocks = 0;  // growing ones at most; memory is taken when one is used
    int64_t slots = 0;   // that hold fixed entries
    // Of states, as bytes_used() counts them, that growing blocks leave room for; 0 =
    // no limit but that of blocks.
    int64_t bytes = 0;
    StateMemory* memory = nullptr;  // not null; outlives the pools
    // The rest as StateArena::Options.
    BlockRecycler* recycler = nullptr;
    ByteAccount* account = nullptr;
    std::optional<int64_t> reserve_bytes = std::nullopt;
    std::function<void()> on_clean;
  };

  StatePools(const StateSpec& spec, const Options& options);

  int64_t blocks() const { return max_blocks_; }
  int64_t slots_used() const { return slots_used_; }
  // Growing blocks that are held or being recycled, a shared one once.
  int64_t blocks_used() const { return growing_ ? growing_->used() : 0; }
  // References to growing blocks that the recycler has still to deal with: while there
  // are any, blocks_used() may fall, and on_clean will be called. Read it before
  // blocks_used().
  int64_t blocks_recycling() const { return growing_ ? growing_->recycling() : 0; }
  // Of blocks that nobody holds, those that can be taken now: up to `wanted`, for which
  // memory is put aside until the next call, and perhaps more. Fewer where the account
  // has no more. Growing ones; and blocks of fixed entries, of which a step takes one
  // at most for each slot.
  int64_t FreeBlocks(int64_t wanted);
  int64_t FreeFixed(int64_t wanted);
  // Sets so many free blocks aside for the reservations of the next step, or all where
  // there are fewer: these then take no lock, allocate no block, and make no system
  // call. Those set aside before that are not needed any more go back. Blocks that are
  // short are reported when they are reserved.
  void SetAside(int64_t blocks, int64_t fixed);
  // Where no slot is used, gives back the block of fixed entries that fresh ones share:
  // the next Acquire fills another one.
  void DropBlank();
  // Bytes of the fixed entries of acquired slots and whole states, and of
  // blocks_used(). Fixed entries that whole states share count once, about.
  int64_t bytes_used() const;
  // What is left of Options::bytes: negative where shared entries were copied since.
  int64_t bytes_left() const { return max_bytes_ - bytes_used(); }
  // Of fixed entries, those beyond one block for each slot and whole state: earlier
  // values of them that are kept.
  int64_t shadow_bytes() const;
  // Of a holder of fixed entries and so many growing blocks.
  int64_t BytesOf(bool fixed, int64_t blocks) const;

  // What follows is the arena's, and its saved states'.

  BlockPool* growing() const { return growing_.get(); }  // null: no growing entries
  BlockPool* fixed() const { return fixed_.get(); }      // null: no fixed entries
  int64_t block_floats() const { return block_floats_; }
  int64_t fixed_floats() const { return fixed_floats_; }
  // A slot begins: its fixed entries are as filled. NO_FREE_BLOCKS. Throws
  // std::bad_alloc.
  absl::Status BeginSlot(StateSlot& slot);
  void EndSlot(StateSlot& slot);
  // The number of whole states with fixed entries changes.
  void CountWholes(int64_t change) { wholes_ += change; }
  // In place of the slot's fixed entries; holds `fixed`.
  void PutFixed(StateSlot& slot, StateBlock* fixed);
  // As filled; null before the first slot.
  StateBlock* blank() const { return blank_; }
  void DropBlocks(StateSlot& slot, BlockRange range);
  // A new list that holds the blocks of `range` too; null for none. Throws
  // std::bad_alloc.
  std::unique_ptr<BlockList> Share(const BlockList* list, BlockRange range);
  // Blocks that no other holder shares, counted up to `most`.
  int64_t Unshared(const BlockList* list, int64_t most) const;
  absl::Status NoFreeBlocks(int64_t needed, int64_t free) const;
  static absl::Status NoFreeFixed();
  // RESOURCE_EXHAUSTED: memory ran out while a state was changed.
  static absl::Status OutOfMemory();

 private:
  // Makes blank_. False: the account has no more. Throws std::bad_alloc.
  bool MakeBlank();
  // Fixed entries of slots and whole states.
  int64_t FixedUsed() const;

  const StateSpec& spec_;
  const int64_t max_blocks_, max_bytes_;
  const int64_t block_floats_;  // of one growing block
  const int64_t fixed_floats_;  // of the fixed block
  std::unique_ptr<BlockPool> growing_, fixed_;
  StateBlock* blank_ = nullptr;  // fixed entries of a fresh slot
  int64_t slots_used_ = 0, wholes_ = 0;
};

}  // namespace mnemon
