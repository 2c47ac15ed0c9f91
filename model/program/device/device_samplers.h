// SPDX-License-Identifier: MIT
// Sampling parameters and state of slots in device memory.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>

#include "model/compute/device/device_driver.h"
#include "model/compute/device/slot_sampler.h"

namespace mnemon {

// Used by one thread.
class DeviceSamplers {
 public:
  // The driver must outlive it.
  explicit DeviceSamplers(DeviceDriver& driver) : driver_(driver) {}
  // Frees all samplers.
  ~DeviceSamplers();
  DeviceSamplers(const DeviceSamplers&) = delete;
  DeviceSamplers& operator=(const DeviceSamplers&) = delete;

  // See Decoder::BeginDraws and EndDraws. Throws std::bad_alloc; the slot then has no
  // sampler.
  void Begin(int32_t slot, const SamplingParams& params,
             std::span<const int32_t> window);
  void End(int32_t slot);
  // Frees ended samplers: everything queued before the mark is done.
  void Done(int64_t mark);

  // REQUIRES: the slot has a sampler.
  device::SlotSampler* Of(int32_t slot) const { return by_slot_.at(slot)->there; }

 private:
  struct Sampler {
    SlotSamplerImage image;
    device::SlotSampler* there = nullptr;  // on the device
    int64_t mark = 0;                      // after which the image is unused
  };

  DeviceDriver& driver_;
  std::list<Sampler> samplers_;
  std::list<Sampler> ended_;
  std::unordered_map<int32_t, std::list<Sampler>::iterator> by_slot_;
};

}  // namespace mnemon
