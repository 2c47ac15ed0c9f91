// SPDX-License-Identifier: MIT
// State memory that never contains zeros by chance: where an arena expects zeros, in
// fresh and in freed blocks, it has canaries, NaN and the largest numbers. Code that
// lets a foreign number take part gets different bits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "model/state/state_memory.h"

namespace mnemon {

class CanaryMemory final : public StateMemory {
 public:
  explicit CanaryMemory(std::unique_ptr<StateMemory> memory);

  void* Take(int64_t bytes, Taker taker) override;
  void GiveBack(void* begin, int64_t bytes) override;
  void TakeAgain(void* begin, int64_t bytes) override;
  void Populate(void* begin, int64_t bytes) override;
  std::optional<int64_t> free_bytes() const override;
  void Zero(float* to, int64_t count) override;
  void Fill(float* to, int64_t count, float value) override;
  void Copy(const float* from, float* to, int64_t count) override;
  absl::Status CopyOut(std::span<const HostCopy> copies) override;
  absl::Status CopyIn(std::span<const HostCopy> copies) override;

 private:
  void PutCanaries(float* to, int64_t count);

  const std::unique_ptr<StateMemory> memory_;
};

}  // namespace mnemon
