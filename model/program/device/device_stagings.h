// SPDX-License-Identifier: MIT
// Pinned buffers, used in turn, that carry the input of steps to a device and results
// back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "model/compute/device/device_driver.h"
#include "model/program/device/device_input.h"

namespace mnemon {

// Pieces of work that are waited for together.
struct DeviceRun {
  int64_t mark = 0;    // after the last piece
  uint32_t wrong = 0;  // StepResult::wrong of collected pieces
  // Drawn tokens of the collected pieces, in order; capacity is reserved.
  std::vector<int32_t> tokens;
};

// Used by one thread.
class DeviceStagings {
 public:
  // Transfers between the host and `input` on the device, the input of a DeviceStep.
  // The driver must outlive it. Throws std::bad_alloc.
  DeviceStagings(DeviceDriver& driver, void* input);
  // REQUIRES: all queued work is done.
  ~DeviceStagings();
  DeviceStagings(const DeviceStagings&) = delete;
  DeviceStagings& operator=(const DeviceStagings&) = delete;

  // Returns the next buffer for the host to write; waits if the device has not read it
  // yet. Send then queues its copy; after the launches, Receive queues the copy of the
  // result.
  DeviceInput Begin(size_t bucket, DeviceRun& run);
  void Send(const DeviceInput& input);
  void Receive(int64_t draws);

  // Waits for the run and collects its results.
  absl::Status Wait(DeviceRun& run);

 private:
  // More than the pieces of a batch, so that two steps do not wait for each other.
  static constexpr int kStagings = 8;

  struct Staging {
    char* memory = nullptr;
    StepResult* result = nullptr;
    int64_t draws = 0;
    DeviceRun* run = nullptr;  // its run; null: free
    int64_t mark = 0;
  };
  static void Collect(Staging& staging);

  DeviceDriver& driver_;
  void* const input_;
  void* pinned_ = nullptr;
  std::array<Staging, kStagings> stagings_;
  Staging* now_ = nullptr;
  int64_t begun_ = 0;
};

}  // namespace mnemon
