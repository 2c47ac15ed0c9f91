// SPDX-License-Identifier: MIT
// What an arena keeps of its slots, to return to: whole states for any slot, saved ones
// for the slot itself, and fixed entries alone. Threads and cost as StateArena.
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
  // Of an arena, which it is part of.
  explicit SavedStates(StateArena& arena) : arena_(arena) {}
  SavedStates(const SavedStates&) = delete;
  SavedStates& operator=(const SavedStates&) = delete;

  // Keeps the state of a slot in the empty `saved`: the fixed entries, and of a ring
  // the blocks that a query at this position can see. Of an append growth nothing is
  // kept but the position. What the slot had reserved must be reserved again.
  // RESOURCE_EXHAUSTED when memory runs out (rings only); nothing changed then.
  // REQUIRES: a slot of length 0 is fresh.
  absl::Status Save(int32_t slot, SavedState& saved);
  // Blocks that Save(slot) would hold.
  int64_t BlocksToSave(int32_t slot) const;
  // Makes a slot the saved state again, with the floor at its position.
  // RESOURCE_EXHAUSTED when memory runs out (rings only); nothing changed then.
  // REQUIRES for an append growth: the slot is the one saved and was never cut below
  // the saved position.
  absl::Status Restore(int32_t slot, const SavedState& saved);
  // Restore and Drop in one, in constant time and without a need for memory.
  void RestoreAndDrop(int32_t slot, SavedState& saved);
  // Empties it; no effect on an empty one.
  void Drop(SavedState& saved);

  // Whole states: those that need no slot, and can be brought into any. They hold the
  // rows that queries from their position on can see; what is written into a slot that
  // shares their blocks is written into copies, so that the numbers of a whole state
  // stay as they are and may be read by any thread (StateImage).
  //
  // Moves the state of a slot into the empty `saved`, and leaves the slot fresh, in
  // constant time but for what the slot had reserved.
  void Detach(int32_t slot, SavedState& saved);
  // Moves it back, into a fresh slot, in constant time.
  void Attach(SavedState& saved, int32_t slot);
  // Shares the state that a slot had at `length` with the empty `saved`; `fixed`: the
  // fixed entries as they were then, null: as they are. What the slot had reserved must
  // be reserved again. RESOURCE_EXHAUSTED when memory runs out; nothing changed then.
  // REQUIRES: the rows that a query at `length` sees are held.
  absl::Status Share(int32_t slot, int64_t length, const SavedFixed* fixed,
                     SavedState& saved);
  // The same of what Save kept of the slot. REQUIRES for an append growth: as Restore.
  absl::Status Share(int32_t slot, const SavedState& kept, SavedState& saved);
  absl::Status Share(const SavedState& whole, SavedState& saved);
  // Makes `saved` a whole state after `computed` tokens that nobody shares, whose
  // numbers are to be written (StateImage). The errors of Acquire and Reserve; nothing
  // changed then. REQUIRES: saved is empty.
  absl::Status MakeWhole(int64_t computed, SavedState& saved);
  // As of slots.
  int64_t bytes_used(const SavedState& whole) const;
  int64_t UnsharedBlocks(const SavedState& whole, int64_t most) const;

  // All fixed entries as they are now, for cutting back; empty without fixed entries.
  // What the slot had reserved must be reserved again.
  SavedFixed SaveFixed(int32_t slot);
  // Also sets the length of a slot without growing entries. REQUIRES: not empty.
  void RestoreFixed(int32_t slot, const SavedFixed& saved, int64_t length);
  // Takes the fixed entries out of a saved state, which can only be dropped then;
  // none at position 0.
  SavedFixed TakeFixed(SavedState& saved);
  // Empties it; no effect on an empty one.
  void Drop(SavedFixed& saved);

 private:
  StatePools& pools() const;
  const StateSpec& spec() const;
  void MakeSavedWhole(SavedState& saved);
  // In place of the slot's blocks; the position of `saved`.
  void PutBlocks(StateSlot& slot, std::unique_ptr<BlockList> list,
                 const SavedState& saved);

  StateArena& arena_;
};

}  // namespace mnemon
