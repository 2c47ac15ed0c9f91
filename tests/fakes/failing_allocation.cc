// SPDX-License-Identifier: MIT
#include "tests/fakes/failing_allocation.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace mnemon {

std::atomic<int64_t> countdown{0};
thread_local bool takes_part = true;
std::atomic<bool (*)(void*)> may_fail{nullptr};

namespace {

void* Allocate(size_t bytes, size_t alignment, void* caller) {
  if (takes_part && countdown.load(std::memory_order_relaxed) > 0) {
    bool (*const asked)(void*) = may_fail;
    if ((asked == nullptr || asked(caller)) && countdown.fetch_sub(1) == 1) {
      throw std::bad_alloc();
    }
  }
  // A multiple of the alignment, as aligned_alloc asks.
  const size_t whole = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment;
  if (void* memory = std::aligned_alloc(alignment, whole * alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace
}  // namespace mnemon

using mnemon::Allocate;

// All forms: a sanitizer replaces each of them, and frees what its own forms took.
void* operator new(size_t bytes) {
  return Allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__, __builtin_return_address(0));
}
void* operator new[](size_t bytes) {
  return Allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__, __builtin_return_address(0));
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment), __builtin_return_address(0));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment), __builtin_return_address(0));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](size_t bytes, const std::nothrow_t& tag) noexcept {
  return operator new(bytes, tag);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
