// SPDX-License-Identifier: MIT
// The way of a step's input to a device, and of its result back: pieces of pinned
// memory that are used in turns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "model/compute/device/device_driver.h"
#include "model/program/device_input.h"

namespace mnemon {

// Pieces of work that belong together.
struct DeviceRun {
  int64_t mark = 0;    // behind the last of them
  uint32_t wrong = 0;  // StepResult::wrong of those that were collected
  // Likewise their drawn tokens, in order; there is room for them.
  std::vector<int32_t> tokens;
};

// One thread.
class DeviceStagings {
 public:
  // Between the host and `input` on the device, which is that of a DeviceStep. The
  // driver must outlive it. Throws std::bad_alloc.
  DeviceStagings(DeviceDriver& driver, void* input);
  // REQUIRES: all that was queued is done.
  ~DeviceStagings();
  DeviceStagings(const DeviceStagings&) = delete;
  DeviceStagings& operator=(const DeviceStagings&) = delete;

  // The next piece, for the host to write; waits where the device has not read it yet.
  // Then Send queues its copy, and after the launches Receive that of the result.
  DeviceInput Begin(size_t bucket, DeviceRun& run);
  void Send(const DeviceInput& input);
  void Receive(int64_t draws);

  // Waits for the run and collects its results.
  absl::Status Wait(DeviceRun& run);

 private:
  // More than a batch has pieces: those of two steps do not wait for each other.
  static constexpr int kStagings = 8;

  struct Staging {
    char* memory = nullptr;
    StepResult* result = nullptr;
    int64_t draws = 0;
    DeviceRun* run = nullptr;  // that it belongs to; null: free
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
