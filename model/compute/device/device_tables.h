// SPDX-License-Identifier: MIT
// The block tables of an arena's slots in device memory. They stay there: a step
// transfers only what has changed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "model/compute/device/device_addresses.h"
#include "model/compute/device/device_driver.h"
#include "model/operations/cuda/step_call.h"
#include "model/state/arena.h"

namespace mnemon {

// Owned by the thread that owns the arena.
class DeviceTables {
 public:
  // Receives pending changes when there is no room for more.
  using Flush = absl::FunctionRef<void(std::span<const TableChange>)>;
  // Most pending changes.
  static constexpr int64_t kMostChanges = 512;

  // For states of this spec. The driver must outlive it.
  DeviceTables(DeviceDriver& driver, const StateSpec& spec);
  // Makes room for slots 0 .. slots-1, whose tables have at most `blocks` blocks.
  // Throws std::bad_alloc.
  void MakeRoom(int64_t slots, int64_t blocks);

  // The slot's table for key ranges, as it will be on the device after the pending
  // changes. Does not allocate. REQUIRES: room.
  BlockTable Update(StateArena& arena, int32_t slot, Flush flush);
  // Takes the pending changes; valid until the next Update.
  std::span<const TableChange> TakeChanges();

 private:
  // Entries per slot.
  int64_t stride() const { return ring_ ? 2 * blocks_ : blocks_; }
  void Change(float** entry, float* block, Flush flush);

  // A ring's table starts anywhere: block b has entries b % blocks_ and blocks_ + b %
  // blocks_, so that each table is contiguous.
  const bool ring_;
  int64_t blocks_ = 0;      // per slot
  DeviceAddresses memory_;  // [slots][stride()]
  std::vector<bool> written_;
  std::vector<TableChange> changes_;
  bool taken_ = false;
};

}  // namespace mnemon
