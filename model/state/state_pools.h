// SPDX-License-Identifier: MIT
// The blocks of a StateArena, of growing and of fixed entries, and the accounts of
// both. Threads: see StateArena.
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
    int64_t blocks = 0;  // most growing blocks; memory is taken on use
    int64_t slots = 0;   // slots that hold fixed entries
    // Limit of the bytes of states, as bytes_used() counts them, that growing blocks
    // may fill; 0 = limited only by `blocks`.
    int64_t bytes = 0;
    StateMemory* memory = nullptr;  // not null; outlives the pools
    // For the rest see StateArena::Options.
    BlockRecycler* recycler = nullptr;
    ByteAccount* account = nullptr;
    std::optional<int64_t> reserve_bytes = std::nullopt;
    std::function<void()> on_clean;
  };

  StatePools(const StateSpec& spec, const Options& options);

  int64_t blocks() const { return max_blocks_; }
  int64_t slots_used() const { return slots_used_; }
  // Growing blocks that are held or being recycled; a shared one counts once.
  int64_t blocks_used() const { return growing_ ? growing_->used() : 0; }
  // References to growing blocks that the recycler has not processed yet: while there
  // are any, blocks_used() may fall, and on_clean will be called. Read it before
  // blocks_used().
  int64_t blocks_recycling() const { return growing_ ? growing_->recycling() : 0; }
  // Blocks without holders that can be taken now: up to `wanted`, whose memory is set
  // aside until the next call, and perhaps more; fewer if the account is exhausted. Two
  // kinds: growing blocks, and blocks of fixed entries, of which a step takes at most
  // one per slot.
  int64_t FreeBlocks(int64_t wanted);
  int64_t FreeFixed(int64_t wanted);
  // Sets this many free blocks aside for the reservations of the next step, or all if
  // there are fewer: these then take no lock, allocate no block, and make no system
  // call. Blocks set aside before and no longer needed are freed. A shortage is
  // reported on reservation.
  void SetAside(int64_t blocks, int64_t fixed);
  // If no slot is used, frees the block of fixed entries that fresh slots share; the
  // next Acquire fills another one.
  void DropBlank();
  // Bytes of the fixed entries of acquired slots and whole states, and of
  // blocks_used(). Fixed entries shared by whole states count about once.
  int64_t bytes_used() const;
  // What is left of Options::bytes; negative if shared entries were copied since.
  int64_t bytes_left() const { return max_bytes_ - bytes_used(); }
  // Bytes of fixed entries beyond one block per slot and whole state: earlier values
  // that are kept.
  int64_t shadow_bytes() const;
  // Bytes of a holder with fixed entries or without, and `blocks` growing blocks.
  int64_t BytesOf(bool fixed, int64_t blocks) const;

  // Functions for the arena and its saved states.

  BlockPool* growing() const { return growing_.get(); }  // null: no growing entries
  BlockPool* fixed() const { return fixed_.get(); }      // null: no fixed entries
  int64_t block_floats() const { return block_floats_; }
  int64_t fixed_floats() const { return fixed_floats_; }
  // Starts a slot with fixed entries as filled. NO_FREE_BLOCKS. Throws std::bad_alloc.
  absl::Status BeginSlot(StateSlot& slot);
  void EndSlot(StateSlot& slot);
  // Changes the number of whole states with fixed entries.
  void CountWholes(int64_t change) { wholes_ += change; }
  // Replaces the slot's fixed entries; adds a holder to `fixed`.
  void PutFixed(StateSlot& slot, StateBlock* fixed);
  // Fixed entries as filled; null before the first slot.
  StateBlock* blank() const { return blank_; }
  void DropBlocks(StateSlot& slot, BlockRange range);
  // A new list that also holds the blocks of `range`; null if there are none. Throws
  // std::bad_alloc.
  std::unique_ptr<BlockList> Share(const BlockList* list, BlockRange range);
  // Blocks that no other holder shares, counted up to `most`.
  int64_t Unshared(const BlockList* list, int64_t most) const;
  absl::Status NoFreeBlocks(int64_t needed, int64_t free) const;
  static absl::Status NoFreeFixed();
  // RESOURCE_EXHAUSTED: no memory while a state was changed.
  static absl::Status OutOfMemory();

 private:
  // Makes blank_. Returns false if the account is exhausted. Throws std::bad_alloc.
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
