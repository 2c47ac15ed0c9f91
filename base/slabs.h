// SPDX-License-Identifier: MIT
// A bump allocator in huge pages where the system has them, for memory that is read
// again and again. All pieces are freed together. In small pages a step is up to a
// quarter slower: TLB misses, and hardware prefetching that stops at each page's end.
#pragma once

#include <cstdint>
#include <vector>

namespace mnemon {

// Reserves address space in large slabs; the system gives memory when a piece is first
// written or read.
// Not safe for concurrent use.
class Slabs {
 public:
  Slabs() = default;
  ~Slabs();
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;

  // `bytes` > 0 of zeros that begin on a cache line; valid until the destructor.
  // Throws std::bad_alloc.
  void* Take(int64_t bytes);
  float* TakeFloats(int64_t count);

  // Handed out, in whole cache lines.
  int64_t bytes() const { return bytes_; }

 private:
  struct Slab {
    char* begin = nullptr;
    int64_t size = 0;
    int64_t used = 0;
  };

  std::vector<Slab> slabs_;  // only the last one has room
  int64_t bytes_ = 0;
};

}  // namespace mnemon
