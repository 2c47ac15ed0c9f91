// SPDX-License-Identifier: MIT
// A range of device addresses, of which a prefix has memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/compute/device/device_driver.h"

namespace mnemon {

// Not safe for concurrent use.
class DeviceAddresses {
 public:
  // The driver must outlive it.
  explicit DeviceAddresses(DeviceDriver& driver) : driver_(driver) {}
  ~DeviceAddresses() { GiveBack(); }
  DeviceAddresses(const DeviceAddresses&) = delete;
  DeviceAddresses& operator=(const DeviceAddresses&) = delete;

  // Reserves `bytes` of addresses without memory, in place of the previous range.
  // Throws std::bad_alloc and then has no addresses.
  void Reserve(int64_t bytes) {
    GiveBack();
    size_ = Whole(bytes);
    begin_ = size_ > 0 ? driver_.TakeAddresses(size_) : nullptr;
  }
  // Maps memory for the first `bytes`; new memory has arbitrary content. Throws
  // std::bad_alloc without effect. REQUIRES: as many are reserved.
  void Cover(int64_t bytes) {
    const int64_t needed = Whole(bytes);
    if (needed <= covered_) return;
    driver_.Map(begin_ + covered_, needed - covered_);
    covered_ = needed;
  }

  char* begin() const { return begin_; }
  int64_t size() const { return size_; }

 private:
  static int64_t Whole(int64_t bytes) {
    constexpr int64_t kUnit = DeviceDriver::kUnit;
    return (bytes + kUnit - 1) / kUnit * kUnit;
  }
  void GiveBack() {
    if (begin_ != nullptr) driver_.GiveBackAddresses(begin_);
    begin_ = nullptr;
    size_ = covered_ = 0;
  }

  DeviceDriver& driver_;
  char* begin_ = nullptr;
  int64_t size_ = 0;
  int64_t covered_ = 0;
};

}  // namespace mnemon
