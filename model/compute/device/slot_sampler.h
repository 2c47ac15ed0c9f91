// SPDX-License-Identifier: MIT
// What the draws of a slot go by, made by the host as one piece of a device's memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/compute/cuda/sample_row.h"
#include "model/sampling/sampling_params.h"

namespace mnemon {

// Constant but for MoveTo. Its numbers stay where they are when it is moved.
class SlotSamplerImage {
 public:
  // `tail`: the newest tokens of the history, penalty_window_tokens of them or all.
  // Throws std::bad_alloc. REQUIRES: Rounded parameters.
  SlotSamplerImage(const SamplingParams& params, std::span<const int32_t> tail);

  int64_t bytes() const { return static_cast<int64_t>(bytes_.size()); }
  const void* data() const { return bytes_.data(); }
  // Makes it one that lies at `address`, on 16 bytes.
  device::SlotSampler* MoveTo(void* address);

 private:
  std::vector<char> bytes_;  // a SlotSampler, its biases, its window
  int64_t biases_ = 0;       // where they begin
  int64_t window_ = 0;
};

}  // namespace mnemon
