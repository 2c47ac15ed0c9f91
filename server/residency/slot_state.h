// SPDX-License-Identifier: MIT
// The state of one session in an arena, with what a rewind of it needs.
//
// Growing entries are cut by truncation. Fixed entries are overwritten, so earlier
// values ("shadows") of them are kept: while tokens can still be taken back, one per
// kShadowInterval computed tokens, the oldest about that far before the earliest point
// a cut can reach; while a prompt is computed, the newest of one per PromptInterval
// tokens, so that a step that fails does not begin again at token 0. A cut restores a
// shadow; the tokens after that are computed again with the next call.
//
// From BeginCall until KeepPrompt the state from before the call's prompt is kept too,
// and RollBackCall returns to it.
//
// At rest a state is whole and holds no slot. One in the memory of a device may be
// offloaded to the host's memory, as an image.
//
// `kept` below: the tokens of the history that no cut can take away (the prompt and
// what was delivered). Owned by the thread that owns the arena.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/memory/byte_budget.h"
#include "model/state/arena.h"

namespace mnemon {

class SlotState {
 public:
  static constexpr int64_t kShadowInterval = 16;
  // With at most 64 tokens computed and not delivered.
  static constexpr int64_t kMaxShadows = 64 / kShadowInterval + 3;
  // Tokens between shadows while a prompt is computed. A ring holds the rows that a
  // query at its oldest shadow sees, so there it is what an arena has room for.
  static int64_t PromptInterval(const StateArena& arena) {
    return arena.spec().growth() == Growth::kRing ? 64 : 256;
  }

  bool held() const { return slot_ >= 0; }
  // REQUIRES: held.
  int32_t slot() const { return slot_; }
  // Anything that a call need not compute again.
  bool has_state() const { return held() || !whole_.empty(); }
  // Brings the state at rest, cut to a history of so many tokens, or a fresh one into a
  // slot, unless one is held. RESOURCE_EXHAUSTED when none is free.
  absl::Status Acquire(StateArena& arena, int64_t history);
  // Drops slot and state, if any.
  void Release(StateArena& arena);

  // Back to a fresh state in the same slot; RollBackCall cannot be called then.
  // REQUIRES: held.
  void Reset(StateArena& arena);

  // Shares with the empty `whole` the newest state there is that has computed fewer
  // than `history` tokens, all of them kept ones; leaves it empty where that is a fresh
  // one. RESOURCE_EXHAUSTED when memory runs out. REQUIRES: no step under way uses the
  // slot.
  absl::Status Share(StateArena& arena, int64_t history, SavedState& whole) const;
  // Makes `whole`, which is empty then, the state at rest. REQUIRES: no state.
  void Put(SavedState& whole) {
    DropImage();
    whole_ = std::move(whole);
  }
  // The state at rest; empty where there is none.
  SavedState& whole() { return whole_; }

  // Whether there is an image; then there is no state.
  bool has_image() const { return image_ != nullptr; }
  int64_t image_computed() const { return image_ ? image_->computed : 0; }
  int64_t image_bytes() const { return image_ ? image_->charge.bytes() : 0; }
  // Moves the state at rest to the host's memory, which `charge` counts, or changes
  // nothing: RESOURCE_EXHAUSTED; UNAVAILABLE, DEVICE_LOST. REQUIRES: a state at rest.
  absl::Status MakeImage(StateArena& arena, ByteCharge charge);
  // The image becomes the state at rest, or nothing changes. REQUIRES: an image.
  absl::Status TakeImage(StateArena& arena);
  void DropImage() { image_.reset(); }

  // Computed tokens; 0 without a state.
  int64_t computed(const StateArena& arena) const;
  int64_t bytes(const StateArena& arena) const;
  // Growing blocks that nobody shares, counted up to `most`.
  int64_t UnsharedBlocks(const StateArena& arena, int64_t most) const;
  int64_t shadows() const { return static_cast<int64_t>(shadows_.size()); }

  // Keeps the state from before a call's prompt. RESOURCE_EXHAUSTED when memory runs
  // out; nothing changed then. REQUIRES: held, no call under way.
  absl::Status BeginCall(StateArena& arena);
  // The call's first token was delivered: its prompt stays.
  void KeepPrompt(StateArena& arena);
  // Back to the state at BeginCall, exactly. No effect when that is not kept.
  void RollBackCall(StateArena& arena);
  bool can_roll_back_call() const { return !before_call_.empty(); }

  // Tokens from computed() on that one segment may take, so that a shadow falls where
  // one is due. REQUIRES: held, computed() <= history.
  int64_t ChunkLimit(const StateArena& arena, int64_t history, int64_t kept) const;
  // Gives back shadows and a ring's blocks that neither a cut nor the RollBack of a
  // step can reach any more. `complete`: computed tokens without those of steps under
  // way.
  void ReleaseUnreachable(StateArena& arena, int64_t kept, int64_t complete);
  // Whether BeforeStep would save a shadow, so that the step copies the fixed entries.
  bool ShadowDue(const StateArena& arena, int64_t count, int64_t kept) const;
  // Before every segment of `count` tokens: saves a due shadow. Throws std::bad_alloc.
  void BeforeStep(StateArena& arena, int64_t count, int64_t kept);
  // Makes computed() <= history - 1 (0 for an empty history); at rest as CutAtRest.
  void CutBack(StateArena& arena, int64_t history);
  // CutBack, after which no earlier cut will come and no call is under way; gives the
  // slot back, if one is held.
  void Rest(StateArena& arena, int64_t history);
  // The same of a state at rest, or in a slot that no call uses: drops it if there is
  // no slot for that, or what is asked for is no longer there.
  void CutAtRest(StateArena& arena, int64_t history);
  // After a failed step from `position`, which may have left the state in any
  // condition: back to a valid state at or before `position`. While a call can be
  // rolled back, not before that of BeginCall, unless memory for it runs out.
  void RollBack(StateArena& arena, int64_t position);

 private:
  struct Image {
    int64_t computed = 0;
    std::vector<float> numbers;
    ByteCharge charge;
  };
  struct Shadow {
    int64_t position;
    SavedFixed fixed;
  };

  // Where a replay starts when no shadow is of use.
  int64_t Base() const { return before_call_.empty() ? 0 : before_call_.position(); }
  int64_t NewestShadow() const;
  void DropShadowsAfter(StateArena& arena, int64_t position);
  // Whether rows that a query at `position` sees are held.
  bool HoldsRows(const StateArena& arena, int64_t position) const;
  // Back to the newest shadow, or to Base() when there is none.
  void RestoreNewest(StateArena& arena);

  int32_t slot_ = -1;
  SavedState whole_;  // at rest
  std::unique_ptr<Image> image_;
  // By rising position. A fresh state (position 0) is its own shadow and not listed.
  std::vector<Shadow> shadows_;
  SavedState before_call_;
};

}  // namespace mnemon
