// SPDX-License-Identifier: MIT
// A SlotSampler with its biases and window as one piece of memory, which the host
// prepares for a device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/compute/cuda/sample_row.h"
#include "model/sampling/sampling_params.h"

namespace mnemon {

// Immutable except for MoveTo. Moving the object keeps the address of its numbers.
class SlotSamplerImage {
 public:
  // `tail`: the newest tokens of the history, penalty_window_tokens of them or all.
  // Throws std::bad_alloc. REQUIRES: parameters returned by Rounded.
  SlotSamplerImage(const SamplingParams& params, std::span<const int32_t> tail);

  int64_t bytes() const { return static_cast<int64_t>(bytes_.size()); }
  const void* data() const { return bytes_.data(); }
  // Relocates the image to `address`, aligned to 16 bytes.
  device::SlotSampler* MoveTo(void* address);

 private:
  std::vector<char> bytes_;  // a SlotSampler, its biases, its window
  int64_t biases_ = 0;       // offset of the biases
  int64_t window_ = 0;
};

}  // namespace mnemon
