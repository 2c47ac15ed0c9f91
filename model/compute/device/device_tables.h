// SPDX-License-Identifier: MIT
// The block tables of an arena's slots in the memory of a device, where they stay: a
// step brings only what has changed.
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
  // What the changes that have come together go to when there is no room for more.
  using Flush = absl::FunctionRef<void(std::span<const TableChange>)>;
  // Most changes that come together.
  static constexpr int64_t kMostChanges = 512;

  // Of states of this spec. The driver must outlive it.
  DeviceTables(DeviceDriver& driver, const StateSpec& spec);
  // Room for slots 0 .. slots-1, whose tables have at most so many blocks. Throws
  // std::bad_alloc.
  void MakeRoom(int64_t slots, int64_t blocks);

  // The slot's table for key ranges, on the device, once it has made the changes that
  // wait then. Takes no memory. REQUIRES: room.
  BlockTable Update(StateArena& arena, int32_t slot, Flush flush);
  // The changes that wait, which then wait no more; valid until the next Update.
  std::span<const TableChange> TakeChanges();

 private:
  // Entries of one slot.
  int64_t stride() const { return ring_ ? 2 * blocks_ : blocks_; }
  void Change(float** entry, float* block, Flush flush);

  // A ring's table begins anywhere: block b has entries b % blocks_ and, so that each
  // table lies in one piece, blocks_ + b % blocks_.
  const bool ring_;
  int64_t blocks_ = 0;      // of a slot
  DeviceAddresses memory_;  // [slots][stride()]
  std::vector<bool> written_;
  std::vector<TableChange> changes_;
  bool taken_ = false;
};

}  // namespace mnemon
