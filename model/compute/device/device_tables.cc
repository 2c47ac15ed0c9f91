// SPDX-License-Identifier: MIT
#include "model/compute/device/device_tables.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace mnemon {
namespace {

constexpr auto kEntry = static_cast<int64_t>(sizeof(float*));
constexpr int64_t kLeastBlocks = 16;
constexpr int64_t kLeastSlots = 1024;

int64_t PowerOfTwo(int64_t count) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
}

}  // namespace

DeviceTables::DeviceTables(DeviceDriver& driver, const StateSpec& spec)
    : ring_(spec.growth() == Growth::kRing), memory_(driver) {
  changes_.reserve(kMostChanges);
}

void DeviceTables::MakeRoom(int64_t slots, int64_t blocks) {
  const auto had = static_cast<int64_t>(written_.size());
  if (blocks <= blocks_ && slots <= had) return;
  const int64_t most = PowerOfTwo(std::max({blocks, blocks_, kLeastBlocks}));
  const int64_t slot_bytes = (ring_ ? 2 * most : most) * kEntry;
  const int64_t bytes = PowerOfTwo(std::max({slots, had, kLeastSlots})) * slot_bytes;
  if (most != blocks_ || bytes > memory_.size()) {
    written_.clear();  // tables start over
    blocks_ = most;
    memory_.Reserve(bytes);
  }
  memory_.Cover(std::max(slots, had) * slot_bytes);
  written_.resize(static_cast<size_t>(std::max(slots, had)), false);
}

void DeviceTables::Change(float** entry, float* block, Flush flush) {
  if (static_cast<int64_t>(changes_.size()) == kMostChanges) flush(TakeChanges());
  if (std::exchange(taken_, false)) changes_.clear();
  changes_.push_back({entry, block});
}

BlockTable DeviceTables::Update(StateArena& arena, int32_t slot, Flush flush) {
  const BlockTable table = arena.Table(slot);
  MNEMON_CHECK(table.count <= blocks_ && slot < static_cast<int64_t>(written_.size()));
  float** const to = reinterpret_cast<float**>(memory_.begin()) + slot * stride();
  const int64_t first_new = arena.TakeFirstNew(slot);
  for (int64_t i = written_[slot] ? first_new : 0; i < table.count; ++i) {
    float** const entry = to + (table.base + i) % blocks_;
    Change(entry, table.blocks[i], flush);
    if (ring_) Change(entry + blocks_, table.blocks[i], flush);
  }
  written_[slot] = true;
  return {.blocks = to, .base = table.base / blocks_ * blocks_, .count = table.count};
}

std::span<const TableChange> DeviceTables::TakeChanges() {
  if (std::exchange(taken_, true)) return {};
  return changes_;
}

}  // namespace mnemon
