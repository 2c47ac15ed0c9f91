// SPDX-License-Identifier: MIT
// Allocations of device memory that are freed together.
#pragma once

#include <cstdint>
#include <vector>

#include "model/compute/device/device_driver.h"

namespace mnemon {

// Not safe for concurrent use.
class DeviceAllocations {
 public:
  // The driver must outlive it.
  explicit DeviceAllocations(DeviceDriver& driver) : driver_(driver) {}
  ~DeviceAllocations() {
    for (void* const memory : taken_) driver_.GiveBack(memory);
  }
  DeviceAllocations(const DeviceAllocations&) = delete;
  DeviceAllocations& operator=(const DeviceAllocations&) = delete;

  // See DeviceDriver::Take; null for no bytes.
  void* Take(int64_t bytes) {
    if (bytes == 0) return nullptr;
    taken_.emplace_back();  // first, so that nothing leaks if this throws
    try {
      taken_.back() = driver_.Take(bytes);
    } catch (...) {
      taken_.pop_back();
      throw;
    }
    return taken_.back();
  }
  float* TakeFloats(int64_t count) {
    return static_cast<float*>(Take(FloatBytes(count)));
  }

 private:
  DeviceDriver& driver_;
  std::vector<void*> taken_;
};

}  // namespace mnemon
