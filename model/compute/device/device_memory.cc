// SPDX-License-Identifier: MIT
#include "model/compute/device/device_memory.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/status_macros.h"

namespace mnemon {
namespace {

constexpr int64_t kRegion = int64_t{1} << 30;
// Size of the pinned memory for transfers.
constexpr int64_t kPinned = int64_t{4} << 20;

}  // namespace

DeviceMemory::DeviceMemory(DeviceDriver& driver, const StateSpec& spec)
    : driver_(driver), tables_(driver, spec) {
  static_assert(kUnit == DeviceDriver::kUnit);
}

DeviceMemory::~DeviceMemory() {
  if (pinned_ != nullptr) driver_.GiveBackPinned(pinned_);
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
  // On a lost device nothing is in use.
  driver_.Wait(driver_.Mark()).IgnoreError();
  driver_.Unmap(static_cast<char*>(begin), bytes);
}

void DeviceMemory::TakeAgain(void* begin, int64_t bytes) {
  driver_.Map(static_cast<char*>(begin), bytes);
  Zero(static_cast<float*>(begin), bytes / FloatBytes(1));
}

// No effect: memory exists once it is mapped.
void DeviceMemory::Populate(void*, int64_t) {}

void DeviceMemory::Zero(float* to, int64_t count) { Fill(to, count, 0.0f); }

void DeviceMemory::Fill(float* to, int64_t count, float value) {
  driver_.Fill(to, count, value);
}

void DeviceMemory::Copy(const float* from, float* to, int64_t count) {
  driver_.Copy(from, to, FloatBytes(count));
}

absl::Status DeviceMemory::CopyOut(std::span<const HostCopy> copies) {
  return Transfer(copies, Way::kOut);
}

absl::Status DeviceMemory::CopyIn(std::span<const HostCopy> copies) {
  return Transfer(copies, Way::kIn);
}

absl::Status DeviceMemory::Transfer(std::span<const HostCopy> copies, Way way) {
  std::lock_guard lock(pinned_mutex_);
  if (pinned_ == nullptr) pinned_ = static_cast<char*>(driver_.TakePinned(kPinned));
  // Queues as many pieces as fit the pinned memory, then waits for all of them.
  std::vector<HostCopy> queued;
  const auto finish = [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(driver_.Wait(driver_.Mark()));
    const char* from = pinned_;
    for (const HostCopy& piece : queued) {
      if (way == Way::kOut) std::memcpy(piece.host, from, FloatBytes(piece.count));
      from += FloatBytes(piece.count);
    }
    queued.clear();
    return absl::OkStatus();
  };
  int64_t used = 0;
  for (HostCopy left : copies) {
    while (left.count > 0) {
      if (used == kPinned) {
        MNEMON_RETURN_IF_ERROR(finish());
        used = 0;
      }
      const int64_t count = std::min(left.count, (kPinned - used) / FloatBytes(1));
      char* const pinned = pinned_ + used;
      if (way == Way::kOut) {
        driver_.CopyOut(left.block, pinned, FloatBytes(count));
      } else {
        std::memcpy(pinned, left.host, FloatBytes(count));
        driver_.CopyIn(pinned, left.block, FloatBytes(count));
      }
      queued.push_back({.block = left.block, .host = left.host, .count = count});
      used += FloatBytes(count);
      left = {.block = left.block + count,
              .host = left.host + count,
              .count = left.count - count};
    }
  }
  return finish();
}

}  // namespace mnemon
