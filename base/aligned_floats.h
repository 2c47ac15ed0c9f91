// SPDX-License-Identifier: MIT
// Vectors of floats that begin on a cache line: loads and stores of whole vectors then
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

// Likewise, but elements that resize adds are not set.
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

// For what is written before it is read: large memory that is not touched costs
// nothing.
using UnsetFloats = std::vector<float, UnsetAllocator<float>>;

}  // namespace mnemon
