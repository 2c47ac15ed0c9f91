// SPDX-License-Identifier: MIT
#include "model/state/host_memory.h"

#include <algorithm>

#include "base/memory/slabs.h"

namespace mnemon {
namespace {

static_assert(StateMemory::kUnit == Slabs::kHugePage);

class HostMemory final : public StateMemory {
 public:
  void* Take(int64_t bytes, Taker taker) override {
    return (taker == Taker::kOwner ? owners_ : recyclers_).Take(bytes);
  }
  void GiveBack(void* begin, int64_t bytes) override { Slabs::GiveBack(begin, bytes); }
  void TakeAgain(void*, int64_t) override {}  // populated on write
  void Populate(void* begin, int64_t bytes) override { Slabs::Populate(begin, bytes); }

  void Zero(float* to, int64_t count) override { std::fill_n(to, count, 0.0f); }
  void Fill(float* to, int64_t count, float value) override {
    std::fill_n(to, count, value);
  }
  void Copy(const float* from, float* to, int64_t count) override {
    std::copy_n(from, count, to);
  }
  absl::Status CopyOut(std::span<const HostCopy> copies) override {
    for (const HostCopy& copy : copies) Copy(copy.block, copy.host, copy.count);
    return absl::OkStatus();
  }
  absl::Status CopyIn(std::span<const HostCopy> copies) override {
    for (const HostCopy& copy : copies) Copy(copy.host, copy.block, copy.count);
    return absl::OkStatus();
  }

 private:
  // Separate, so that nobody waits while the system provides addresses to the other.
  Slabs owners_, recyclers_;
};

}  // namespace

std::unique_ptr<StateMemory> MakeHostMemory() { return std::make_unique<HostMemory>(); }

}  // namespace mnemon
