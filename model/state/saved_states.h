// SPDX-License-Identifier: MIT
// States that an arena keeps of its slots: whole states for any slot, saved states for
// the slot itself, and fixed entries alone. Threads and cost: see StateArena.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "model/state/saved_state.h"
#include "model/state/state_pools.h"
#include "model/state/state_slot.h"

namespace mnemon {

class StateArena;

class SavedStates {
 public:
  // Part of `arena`.
  explicit SavedStates(StateArena& arena) : arena_(arena) {}
  SavedStates(const SavedStates&) = delete;
  SavedStates& operator=(const SavedStates&) = delete;

  // Saves the state of a slot in the empty `saved`: the fixed entries and, for a ring,
  // the blocks that a query at this position can see. For an append growth, only the
  // position is saved. What the slot had reserved must be reserved again.
  // RESOURCE_EXHAUSTED without memory (rings only), without effect. REQUIRES: a slot of
  // length 0 is fresh.
  absl::Status Save(int32_t slot, SavedState& saved);
  // Blocks that Save(slot) would hold.
  int64_t BlocksToSave(int32_t slot) const;
  // Restores a slot to the saved state, with the floor at its position.
  // RESOURCE_EXHAUSTED without memory (rings only), without effect. REQUIRES for an
  // append growth: the slot is the one saved and was never truncated below the saved
  // position.
  absl::Status Restore(int32_t slot, const SavedState& saved);
  // Restore and Drop, in constant time and without allocation.
  void RestoreAndDrop(int32_t slot, SavedState& saved);
  // Empties it; no effect if it is empty.
  void Drop(SavedState& saved);

  // Whole states, which need no slot and can be attached to any. They hold the rows
  // that queries from their position on can see. Writes into a slot that shares their
  // blocks go into copies, so that the numbers of a whole state never change and any
  // thread may read them (StateImage).
  //
  // Moves the state of a slot into the empty `saved`, and leaves the slot fresh, in
  // constant time except for what the slot had reserved.
  void Detach(int32_t slot, SavedState& saved);
  // Moves it back into a fresh slot, in constant time.
  void Attach(SavedState& saved, int32_t slot);
  // Shares the state that a slot had at `length` with the empty `saved`. `fixed`: the
  // fixed entries at that time; null: the current ones. What the slot had reserved must
  // be reserved again. RESOURCE_EXHAUSTED without memory, without effect. REQUIRES: the
  // rows that a query at `length` sees are held.
  absl::Status Share(int32_t slot, int64_t length, const SavedFixed* fixed,
                     SavedState& saved);
  // The same for what Save kept of the slot. REQUIRES for an append growth: as Restore.
  absl::Status Share(int32_t slot, const SavedState& kept, SavedState& saved);
  absl::Status Share(const SavedState& whole, SavedState& saved);
  // Makes `saved` a whole, unshared state after `computed` tokens, whose numbers are
  // still to be written (StateImage). Errors of Acquire and Reserve, without effect.
  // REQUIRES: saved is empty.
  absl::Status MakeWhole(int64_t computed, SavedState& saved);
  // See StateArena::bytes_used.
  int64_t bytes_used(const SavedState& whole) const;
  int64_t UnsharedBlocks(const SavedState& whole, int64_t most) const;

  // Saves all current fixed entries, for truncation; empty without fixed entries. What
  // the slot had reserved must be reserved again.
  SavedFixed SaveFixed(int32_t slot);
  // Also sets the length of a slot without growing entries. REQUIRES: not empty.
  void RestoreFixed(int32_t slot, const SavedFixed& saved, int64_t length);
  // Takes the fixed entries out of a saved state, which can then only be dropped; none
  // at position 0.
  SavedFixed TakeFixed(SavedState& saved);
  // Empties it; no effect if it is empty.
  void Drop(SavedFixed& saved);

 private:
  StatePools& pools() const;
  const StateSpec& spec() const;
  void MakeSavedWhole(SavedState& saved);
  // Replaces the slot's blocks, at the position of `saved`.
  void PutBlocks(StateSlot& slot, std::unique_ptr<BlockList> list,
                 const SavedState& saved);

  StateArena& arena_;
};

}  // namespace mnemon
