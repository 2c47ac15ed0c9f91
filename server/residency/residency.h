// SPDX-License-Identifier: MIT
// Which states of one model's sessions are where: in slots, at rest in the arena, as
// images in the host's memory, or nowhere.
//
// A state has a slot while its call runs, and while the call delivers unless others
// need it. Blocks for a whole prompt are reserved when its call is admitted; what grows
// while tokens are generated is taken step by step.
//
// States at rest are evicted when blocks are needed, least recently used first:
// offloaded from a device to the host's memory while there is some, else dropped; the
// next call computes them again from the history.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/state/arena.h"
#include "server/requests/engine_memory.h"
#include "server/residency/resident_state.h"

namespace mnemon {

// Owned by the runner's thread, but for Ask. Nothing but what says so needs memory.
class Residency {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `on_host`: the arena is in the host's memory, and states that are evicted are
  // dropped. `memory` counts images.
  Residency(std::unique_ptr<StateArena> arena, bool on_host,
            std::shared_ptr<EngineMemory> memory);

  StateArena& arena() { return *arena_; }
  const StateArena& arena() const { return *arena_; }
  bool on_host() const { return on_host_; }
  // Takes another arena. REQUIRES: no state is in a slot or at rest.
  void Replace(std::unique_ptr<StateArena> arena) { arena_ = std::move(arena); }

  // A round evicts kMostEvicted states at most, so that it ends soon.
  static constexpr int64_t kMostEvicted = 64;
  void BeginRound();
  // Whether the next round has to go on with evictions.
  bool unfinished() const { return unfinished_; }

  // A call on the state waits for blocks (kStarting) or runs (kRunning).
  void Use(const std::shared_ptr<ResidentState>& state, ResidentState::Place place);
  // The call waits for its caller: no round looks at the reservation of the state
  // before ResumeAside.
  void SetAside(ResidentState& state);
  void ResumeAside();
  // No call uses the state, if there is one: it may be evicted. Its slot is kept.
  void SetResting(const std::shared_ptr<ResidentState>& state);
  // The same; the slot is given back, and the state is cut to the history.
  void Rest(const std::shared_ptr<ResidentState>& state);
  // The call on the state ends; a state that rested already goes on resting.
  void StopUsing(ResidentState& state);

  // The call on a state that has a slot delivers since `since`: the slot may be taken
  // from it until LeaveSlot, which is called before the state leaves the slot.
  void KeepSlot(ResidentState& state, Time since);
  void LeaveSlot(const ResidentState& state);
  // Whether a slot is free for a call. If none is, the call that has delivered longest
  // gives its own up: its state rests.
  bool SlotFree();

  // Drops the state, or its image.
  void Drop(ResidentState& state);
  void DropResting();
  // Evicts the least recently used state at rest, although others hold all of its
  // blocks: those may be at rest, too. False: there is none.
  bool EvictShared();
  // Frees blocks and images of about as many bytes as Ask got since the last call.
  // False: none.
  bool GiveUpAsked();

  enum class Restored {
    kYes,     // there is no image (any more)
    kWaits,   // there may be room in another round
    kNoRoom,  // there is no room, and no reason to expect some
  };
  // Restores the image, if there is one. `others_run`: calls may give blocks back.
  Restored Restore(ResidentState& state, bool others_run);
  // Restores the image of a state that no call uses, if there is room for it at once.
  void BringBack(const std::shared_ptr<ResidentState>& state);

  // Evicts states at rest, then those of calls that wait for blocks, but not `except`,
  // until `needed` blocks are free or being recycled. False: none was evicted.
  bool MakeRoom(int64_t needed, const ResidentState* except = nullptr);
  // Evicts states at rest until `needed` blocks of fixed entries are free, and until
  // `bytes` fit. False: none was evicted.
  bool MakeFixedRoom(int64_t needed, std::optional<int64_t> bytes = std::nullopt,
                     const ResidentState* except = nullptr);
  // Evicts states at rest until a state of so many tokens fits. False: it does not, or
  // not yet: blocks are cleaned first.
  bool MakeRoomFor(int64_t computed);

  // Free blocks that nobody has reserved or planned to take: up to `wanted`, which
  // memory is put aside for, and perhaps more. FreeFixed: of fixed entries.
  int64_t FreeBlocks(int64_t wanted);
  int64_t FreeFixed(int64_t wanted);
  // Whether so many bytes of fixed entries more fit beside the promised blocks.
  bool FixedFit(int64_t bytes) const;
  // BlocksPromised to running states and by the plan.
  int64_t PromisedBlocks() const;
  // What the plan of the next step takes beside reservations, at most.
  struct Planned {
    int64_t blocks = 0;
    int64_t fixed = 0;  // blocks of fixed entries
  };
  Planned& planned() { return planned_; }

  // Bytes in slots; shared blocks count once for each.
  int64_t SlotBytes() const;
  // States at rest of sessions with a name.
  int64_t resting_named() const { return resting_named_; }
  void UpdateBytes(ResidentState& state) const;

  // Any thread. About so many bytes are to be given up. False: there are none.
  bool Ask(int64_t bytes);

 private:
  using Place = ResidentState::Place;

  void Unset(ResidentState& state);
  void MoveTo(Place place, const std::shared_ptr<ResidentState>& state);
  ResidentList& ListOf(Place place);
  void Evict(ResidentState& state);
  void DropFirstImage();
  void CountDroppable();

  const bool on_host_;
  const std::shared_ptr<EngineMemory> accounts_;
  std::unique_ptr<StateArena> arena_;
  const int64_t block_bytes_;
  ResidentList starting_;
  ResidentList running_;
  ResidentList aside_;
  ResidentList resting_;        // least recently used first
  ResidentList images_;         // the first one that left is the first
  int64_t aside_bytes_ = 0;     // of states that are set aside
  int64_t aside_promised_ = 0;  // blocks
  int64_t resting_named_ = 0;
  struct Delivering {
    ResidentState* state = nullptr;
    Time since;
  };
  std::vector<Delivering> delivering_;  // by slot
  Planned planned_;
  int64_t left_ = 0;  // states that this round may still evict
  bool unfinished_ = false;
  size_t worthless_ = 0;  // at the end of resting_, found not worth evicting
  std::atomic<int64_t> asked_ = 0;
  // Size of resting_, or of images_ where states are in a device's memory.
  std::atomic<int64_t> droppable_ = 0;
};

}  // namespace mnemon
