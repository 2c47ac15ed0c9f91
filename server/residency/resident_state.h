// SPDX-License-Identifier: MIT
// The state of one session as the runner of its model has it: in a slot, at rest, as an
// image, or nowhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>

#include "server/residency/slot_state.h"

namespace mnemon {

struct ResidentState;
using ResidentList = std::list<std::shared_ptr<ResidentState>>;

// Owned by the runner's thread, but for what any thread reads. The node of the list
// that it is on is made with it, so that no move needs memory.
struct ResidentState {
  // The list of Residency that it is on.
  enum class Place {
    kNowhere,
    kStarting,  // its call has a permit and waits for blocks
    kRunning,   // its call runs
    kAside,     // its call runs and waits for its caller
    kResting,   // it has a state, and may be evicted
    kImage,     // its numbers are in the host's memory, and not in the device's
  };

  ResidentState() = default;
  virtual ~ResidentState() = default;
  ResidentState(const ResidentState&) = delete;
  ResidentState& operator=(const ResidentState&) = delete;

  // Tokens in the history that the state follows.
  virtual int64_t history_size() const = 0;
  // Whether it is of a session with a name.
  virtual bool named() const = 0;

  SlotState state;
  // Blocks that it may hold without asking: those of the prompt were reserved.
  int64_t reserved_blocks = 0;
  Place place = Place::kNowhere;
  // Its node while it is nowhere, and its place in any list.
  ResidentList node = ResidentList(1);
  ResidentList::iterator at = node.begin();

  // Any thread reads them.
  std::atomic<int64_t> state_bytes = 0;
  std::atomic<int64_t> image_bytes = 0;  // of a state that left a device's memory
  bool in_memory() const { return state_bytes > 0 || image_bytes > 0; }
};

}  // namespace mnemon
