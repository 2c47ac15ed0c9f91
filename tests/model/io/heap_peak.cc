// SPDX-License-Identifier: MIT
// Replaces operator new and delete of the program that links it; all other forms but
// those for over-aligned types end in these.
#include "tests/model/io/heap_peak.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace mnemon {
namespace {

std::atomic<int64_t> live{0};
std::atomic<int64_t> peak{0};
std::atomic<int64_t> at_start{0};

void Count(int64_t bytes) {
  const int64_t now = live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t highest = peak.load(std::memory_order_relaxed);
  while (now > highest && !peak.compare_exchange_weak(highest, now)) {
  }
}

}  // namespace

void StartHeapPeak() { peak = at_start = live.load(); }
int64_t HeapPeak() { return peak - at_start; }

}  // namespace mnemon

void* operator new(size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  mnemon::Count(static_cast<int64_t>(malloc_usable_size(memory)));
  return memory;
}

void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  mnemon::Count(-static_cast<int64_t>(malloc_usable_size(memory)));
  std::free(memory);
}

void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
