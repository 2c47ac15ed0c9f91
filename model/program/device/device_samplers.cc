// SPDX-License-Identifier: MIT
#include "model/program/device/device_samplers.h"

namespace mnemon {

DeviceSamplers::~DeviceSamplers() {
  driver_.Wait(driver_.Mark()).IgnoreError();
  for (const Sampler& sampler : samplers_) driver_.GiveBack(sampler.there);
}

void DeviceSamplers::Begin(int32_t slot, const SamplingParams& params,
                           std::span<const int32_t> window) {
  End(slot);
  std::list<Sampler> made;
  Sampler& sampler = made.emplace_back(Sampler{SlotSamplerImage(params, window)});
  by_slot_.emplace(slot, made.begin());
  void* memory = nullptr;
  try {
    memory = driver_.Take(sampler.image.bytes());
  } catch (...) {
    by_slot_.erase(slot);
    throw;
  }
  samplers_.splice(samplers_.end(), made);
  sampler.there = sampler.image.MoveTo(memory);
  driver_.CopyIn(sampler.image.data(), memory, sampler.image.bytes());
}

void DeviceSamplers::End(int32_t slot) {
  const auto at = by_slot_.find(slot);
  if (at == by_slot_.end()) return;
  const auto sampler = at->second;
  by_slot_.erase(at);
  driver_.GiveBack(sampler->there);
  sampler->mark = driver_.Mark();
  ended_.splice(ended_.end(), samplers_, sampler);
}

void DeviceSamplers::Done(int64_t mark) {
  while (!ended_.empty() && ended_.front().mark <= mark) ended_.pop_front();
}

}  // namespace mnemon
