// SPDX-License-Identifier: MIT
// The memory of all sessions of one decoder: slots, and one pool of blocks of
// kBlockPositions rows. A slot owns a list of blocks; a fixed entry set is one block of
// its own. Nothing wraps and nothing is overwritten: a chunk is appended first and
// attended afterwards, and rows cut back may be written again.
//
// Layout of a growing block: for each growing entry in spec order, kBlockPositions
// rows. Layout of the fixed block: the fixed entries in spec order.
//
// Not safe for concurrent use: one thread (the engine's) owns an arena.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/slabs.h"
#include "model/state/state.h"

namespace mnemon {

class StateArena {
 public:
  struct Options {
    int32_t slots = 0;  // at least 1
    // Growing blocks in the pool; 0 = enough for every slot at the spec's capacity
    // (a ring: ceil((M + 128) / 16) + 1 per slot). Memory is taken from the system
    // when a block is first used, and kept.
    int64_t blocks = 0;
  };

  // INVALID_ARGUMENT for a bad spec or sizes that overflow.
  static absl::StatusOr<std::unique_ptr<StateArena>> Create(const StateSpec& spec,
                                                            const Options& options);
  ~StateArena();
  StateArena(const StateArena&) = delete;
  StateArena& operator=(const StateArena&) = delete;

  const StateSpec& spec() const { return spec_; }
  int32_t slots() const;
  int32_t slots_used() const { return slots_used_; }
  int64_t blocks() const { return max_blocks_; }
  int64_t blocks_used() const { return blocks_used_; }
  // Bytes held by acquired slots, fixed and growing.
  int64_t bytes_used() const;
  // Bytes held by one acquired slot.
  int64_t bytes_used(int32_t slot) const;

  // A fresh state: length 0, fixed entries filled. RESOURCE_EXHAUSTED when no slot is
  // free.
  absl::StatusOr<int32_t> Acquire();
  // Gives slot and blocks back; their bytes are zeroed. REQUIRES: acquired.
  void Release(int32_t slot);
  // Back to a fresh state, slot kept.
  void Reset(int32_t slot);
  // Makes the fresh slot `to` a copy of `from`. RESOURCE_EXHAUSTED when the pool has
  // too few blocks; `to` is then still fresh. REQUIRES: both acquired, not the same.
  absl::Status Copy(int32_t from, int32_t to);

  // Tokens fed to this slot: the absolute position of the next one.
  int64_t length(int32_t slot) const;
  // First position whose row is still held (0 unless a ring has let blocks go).
  int64_t first_held(int32_t slot) const;

  // Blocks that Reserve(slot, count) would take from the pool.
  int64_t BlocksNeeded(int32_t slot, int64_t count) const;
  // Makes room for rows length .. length+count-1. RESOURCE_EXHAUSTED when the pool has
  // too few blocks, FAILED_PRECONDITION beyond an append capacity; on error nothing
  // changed. Idempotent for the same range.
  absl::Status Reserve(int32_t slot, int64_t count);
  // Makes a fresh slot begin at `position`, as if the rows before it had been written
  // and let go: for a state that is brought from elsewhere. REQUIRES: length 0, no rows
  // reserved; 0 unless the growth is a ring.
  void StartAt(int32_t slot, int64_t position);
  // Declares `count` reserved rows written. REQUIRES: reserved.
  void Advance(int32_t slot, int64_t count);
  // Cuts growing entries back to `length` tokens; blocks beyond go back to the pool.
  // Fixed entries are not touched: see RestoreFixed.
  // REQUIRES: first_held <= length <= length(slot).
  void Truncate(int32_t slot, int64_t length);
  // Promises that no query at a position below `floor` comes again; a ring's blocks
  // that only such queries could see go back to the pool. No effect on append and
  // fixed.
  void SetFloor(int32_t slot, int64_t floor);

  // Fixed entry `entry` of the spec: elements() floats.
  float* Fixed(int32_t slot, int entry);
  const float* Fixed(int32_t slot, int entry) const;
  // Row of growing entry `entry` at an absolute position, held or reserved: elements()
  // floats. The rows of one block are contiguous.
  float* Row(int32_t slot, int entry, int64_t position);
  const float* Row(int32_t slot, int entry, int64_t position) const;

  // The whole block of positions 16 b .. 16 b + 15, held or reserved, and where within
  // it an entry starts, in floats: for decoders that lay out an entry of a block in
  // their own way (StateEntry::layout).
  float* Block(int32_t slot, int64_t block);
  int64_t BlockOffset(int entry) const { return entry_offset_[entry]; }

  // Copies of all fixed entries, for cutting back; `saved` is overwritten. RestoreFixed
  // also sets the length of a slot without growing entries.
  void SaveFixed(int32_t slot, std::vector<float>& saved) const;
  void RestoreFixed(int32_t slot, const std::vector<float>& saved, int64_t length);

 private:
  struct Slot;

  StateArena(const StateSpec& spec, const Options& options, int64_t max_blocks);
  // Puts `count` more blocks at the end of a slot's list, or none.
  absl::Status TakeBlocks(Slot& slot, int64_t count);

  const StateSpec spec_;
  const int64_t max_blocks_;
  const int64_t block_floats_;         // floats of one growing block
  std::vector<int64_t> entry_offset_;  // floats; within the fixed or growing block
  std::vector<int64_t> entry_elements_;
  std::vector<Slot> slots_;
  Slabs memory_;
  std::vector<float*> free_blocks_;  // with room for all that were made
  int64_t blocks_made_ = 0;
  int32_t slots_used_ = 0;
  int64_t blocks_used_ = 0;
};

}  // namespace mnemon
