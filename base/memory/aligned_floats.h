// SPDX-License-Identifier: MIT
// Vectors of floats aligned to a cache line, so that loads and stores of whole vectors
// never cross one.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace mnemon {

template <class T>
struct CacheLineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  CacheLineAllocator() = default;
  template <class U>
  CacheLineAllocator(const CacheLineAllocator<U>&) {}

  T* allocate(size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), kLine));
  }
  void deallocate(T* memory, size_t) { ::operator delete(memory, kLine); }

  template <class U>
  bool operator==(const CacheLineAllocator<U>&) const {
    return true;
  }
};

using AlignedFloats = std::vector<float, CacheLineAllocator<float>>;

// The same, but elements added by resize are uninitialised.
template <class T>
struct UnsetAllocator : CacheLineAllocator<T> {
  UnsetAllocator() = default;
  template <class U>
  UnsetAllocator(const UnsetAllocator<U>&) {}

  template <class U>
  void construct(U* at) {
    ::new (static_cast<void*>(at)) U;
  }
  template <class U>
  bool operator==(const UnsetAllocator<U>&) const {
    return true;
  }
};

// For memory that is written before it is read: large memory that is not touched costs
// nothing.
using UnsetFloats = std::vector<float, UnsetAllocator<float>>;

}  // namespace mnemon
