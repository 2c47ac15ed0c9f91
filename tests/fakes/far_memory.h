// SPDX-License-Identifier: MIT
// State memory like a device's: nobody can read or write at its addresses, which are of
// inaccessible pages; its own calls use other addresses of the same memory. A use of
// what was not taken, or was freed, ends the process.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "model/state/state_memory.h"

namespace mnemon {

class FarMemory final : public StateMemory {
 public:
  FarMemory();
  ~FarMemory() override;

  void* Take(int64_t bytes, Taker taker) override;
  void GiveBack(void* begin, int64_t bytes) override;
  void TakeAgain(void* begin, int64_t bytes) override;
  void Populate(void* begin, int64_t bytes) override;
  void Zero(float* to, int64_t count) override;
  void Fill(float* to, int64_t count, float value) override;
  void Copy(const float* from, float* to, int64_t count) override;
  absl::Status CopyOut(std::span<const HostCopy> copies) override;
  absl::Status CopyIn(std::span<const HostCopy> copies) override;

  // Host address of what a step on the device would access: `count` numbers.
  float* Near(const float* far, int64_t count);

 private:
  static constexpr int64_t kUnits = 256;

  // Marks units of kUnit bytes as present or not; they must have been the opposite.
  void Mark(const void* begin, int64_t bytes, bool there);

  int file_ = -1;
  char* far_ = nullptr;
  char* near_ = nullptr;
  std::atomic<int64_t> used_{0};  // bytes
  std::array<std::atomic<bool>, kUnits> there_{};
};

}  // namespace mnemon
