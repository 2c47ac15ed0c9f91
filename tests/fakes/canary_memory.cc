// SPDX-License-Identifier: MIT
#include "tests/fakes/canary_memory.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/check.h"

namespace mnemon {
namespace {

constexpr size_t kPattern = 4099;  // prime: no block begins with the same one twice

const std::array<float, kPattern>& Canaries() {
  static const std::array<float, kPattern> pattern = [] {
    using Limits = std::numeric_limits<float>;
    constexpr float kKinds[] = {Limits::quiet_NaN(), Limits::max(),
                                -Limits::max(),      -Limits::quiet_NaN(),
                                Limits::infinity(),  1.0e30f,
                                -Limits::infinity(), Limits::signaling_NaN()};
    std::array<float, kPattern> made;
    for (size_t i = 0; i < kPattern; ++i) made[i] = kKinds[i % std::size(kKinds)];
    return made;
  }();
  return pattern;
}

}  // namespace

CanaryMemory::CanaryMemory(std::unique_ptr<StateMemory> memory)
    : memory_(std::move(memory)) {}

void CanaryMemory::PutCanaries(float* to, int64_t count) {
  // Only read there.
  float* const host = const_cast<float*>(Canaries().data());
  while (count > 0) {
    const HostCopy piece{.block = to,
                         .host = host,
                         .count = std::min(count, static_cast<int64_t>(kPattern))};
    MNEMON_CHECK(memory_->CopyIn({&piece, 1}).ok());
    to += piece.count;
    count -= piece.count;
  }
}

void* CanaryMemory::Take(int64_t bytes, Taker taker) {
  void* const begin = memory_->Take(bytes, taker);
  PutCanaries(static_cast<float*>(begin), bytes / static_cast<int64_t>(sizeof(float)));
  return begin;
}

void CanaryMemory::GiveBack(void* begin, int64_t bytes) {
  memory_->GiveBack(begin, bytes);
}

void CanaryMemory::TakeAgain(void* begin, int64_t bytes) {
  memory_->TakeAgain(begin, bytes);
  PutCanaries(static_cast<float*>(begin), bytes / static_cast<int64_t>(sizeof(float)));
}

void CanaryMemory::Populate(void* begin, int64_t bytes) {
  memory_->Populate(begin, bytes);
}

std::optional<int64_t> CanaryMemory::free_bytes() const {
  return memory_->free_bytes();
}

void CanaryMemory::Zero(float* to, int64_t count) { PutCanaries(to, count); }

void CanaryMemory::Fill(float* to, int64_t count, float value) {
  memory_->Fill(to, count, value);
}

void CanaryMemory::Copy(const float* from, float* to, int64_t count) {
  memory_->Copy(from, to, count);
}

absl::Status CanaryMemory::CopyOut(std::span<const HostCopy> copies) {
  return memory_->CopyOut(copies);
}

absl::Status CanaryMemory::CopyIn(std::span<const HostCopy> copies) {
  return memory_->CopyIn(copies);
}

}  // namespace mnemon
