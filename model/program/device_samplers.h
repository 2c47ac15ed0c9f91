// SPDX-License-Identifier: MIT
// What the draws of slots go by, in the memory of a device.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>

#include "model/compute/device/device_driver.h"
#include "model/compute/device/slot_sampler.h"

namespace mnemon {

// One thread.
class DeviceSamplers {
 public:
  // The driver must outlive it.
  explicit DeviceSamplers(DeviceDriver& driver) : driver_(driver) {}
  // Gives all back.
  ~DeviceSamplers();
  DeviceSamplers(const DeviceSamplers&) = delete;
  DeviceSamplers& operator=(const DeviceSamplers&) = delete;

  // As of Decoder::BeginDraws and EndDraws. Throws std::bad_alloc; the slot has none
  // then.
  void Begin(int32_t slot, const SamplingParams& params,
             std::span<const int32_t> window);
  void End(int32_t slot);
  // All that was queued before the mark is done.
  void Done(int64_t mark);

  // REQUIRES: one was begun.
  device::SlotSampler* Of(int32_t slot) const { return by_slot_.at(slot)->there; }

 private:
  struct Sampler {
    SlotSamplerImage image;
    device::SlotSampler* there = nullptr;  // on the device
    int64_t mark = 0;                      // behind which the image is not used
  };

  DeviceDriver& driver_;
  std::list<Sampler> samplers_;
  std::list<Sampler> ended_;
  std::unordered_map<int32_t, std::list<Sampler>::iterator> by_slot_;
};

}  // namespace mnemon
