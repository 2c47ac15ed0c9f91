// SPDX-License-Identifier: MIT
// StateMemory on a device: the memory of one arena, and its block tables.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "model/compute/device/device_driver.h"
#include "model/compute/device/device_tables.h"
#include "model/state/state.h"
#include "model/state/state_memory.h"

namespace mnemon {

// Writes and copies are queued, so that steps queued later see them. Threads: see
// StateMemory.
class DeviceMemory final : public StateMemory {
 public:
  // For states of this spec. The driver must outlive it.
  DeviceMemory(DeviceDriver& driver, const StateSpec& spec);
  // Frees all memory.
  ~DeviceMemory() override;

  void* Take(int64_t bytes, Taker taker) override;
  void GiveBack(void* begin, int64_t bytes) override;
  void TakeAgain(void* begin, int64_t bytes) override;
  void Populate(void* begin, int64_t bytes) override;
  std::optional<int64_t> free_bytes() const override { return driver_.free_bytes(); }
  void Zero(float* to, int64_t count) override;
  void Fill(float* to, int64_t count, float value) override;
  void Copy(const float* from, float* to, int64_t count) override;
  // Copies through pinned memory; one call at a time, others wait.
  absl::Status CopyOut(std::span<const HostCopy> copies) override;
  absl::Status CopyIn(std::span<const HostCopy> copies) override;

  // For the arena's owner only.
  DeviceTables& tables() { return tables_; }

 private:
  // Addresses from which one thread allocates in order.
  struct Region {
    char* begin = nullptr;
    int64_t size = 0;
    int64_t used = 0;
    std::vector<char*> regions;  // all of them
  };

  enum class Way { kOut, kIn };
  absl::Status Transfer(std::span<const HostCopy> copies, Way way);

  DeviceDriver& driver_;
  DeviceTables tables_;
  Region owners_, recyclers_;
  std::mutex pinned_mutex_;
  char* pinned_ = nullptr;  // guarded by pinned_mutex_; set by the first transfer
};

}  // namespace mnemon
