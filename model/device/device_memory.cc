// SPDX-License-Identifier: MIT
#include "model/device/device_memory.h"

#include <algorithm>

#include "base/check.h"

namespace mnemon {
namespace {

constexpr int64_t kRegion = int64_t{1} << 30;

}  // namespace

DeviceMemory::DeviceMemory(DeviceDriver& driver, const StateSpec& spec)
    : driver_(driver), tables_(driver, spec) {
  static_assert(kUnit == DeviceDriver::kUnit);
}

DeviceMemory::~DeviceMemory() {
  for (const Region* region : {&owners_, &recyclers_}) {
    for (char* const begin : region->regions) driver_.GiveBackAddresses(begin);
  }
}

void* DeviceMemory::Take(int64_t bytes, Taker taker) {
  MNEMON_CHECK(bytes > 0 && bytes % kUnit == 0);
  Region& region = taker == Taker::kOwner ? owners_ : recyclers_;
  if (region.size - region.used < bytes) {
    const int64_t size = std::max(kRegion, bytes);
    region.regions.reserve(region.regions.size() + 1);
    region.begin = driver_.TakeAddresses(size);
    region.regions.push_back(region.begin);
    region.size = size;
    region.used = 0;
  }
  char* const begin = region.begin + region.used;
  TakeAgain(begin, bytes);
  region.used += bytes;
  return begin;
}

void DeviceMemory::GiveBack(void* begin, int64_t bytes) {
  // Of a device that is lost nothing is in use.
  driver_.Wait(driver_.Mark()).IgnoreError();
  driver_.Unmap(static_cast<char*>(begin), bytes);
}

void DeviceMemory::TakeAgain(void* begin, int64_t bytes) {
  driver_.Map(static_cast<char*>(begin), bytes);
  Zero(static_cast<float*>(begin), bytes / FloatBytes(1));
}

// It is there when it is taken.
void DeviceMemory::Populate(void*, int64_t) {}

void DeviceMemory::Zero(float* to, int64_t count) { Fill(to, count, 0.0f); }

void DeviceMemory::Fill(float* to, int64_t count, float value) {
  driver_.Fill(to, count, value);
}

void DeviceMemory::Copy(const float* from, float* to, int64_t count) {
  driver_.Copy(from, to, FloatBytes(count));
}

absl::Status DeviceMemory::CopyOut(std::span<const HostCopy> copies) {
  for (const HostCopy& copy : copies) {
    driver_.CopyOut(copy.block, copy.host, FloatBytes(copy.count));
  }
  return driver_.Wait(driver_.Mark());
}

absl::Status DeviceMemory::CopyIn(std::span<const HostCopy> copies) {
  for (const HostCopy& copy : copies) {
    driver_.CopyIn(copy.host, copy.block, FloatBytes(copy.count));
  }
  return driver_.Wait(driver_.Mark());
}

}  // namespace mnemon
