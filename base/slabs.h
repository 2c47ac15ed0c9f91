// SPDX-License-Identifier: MIT
// A bump allocator in huge pages where the system has them, for memory that is read
// again and again. All pieces are freed together. In small pages a step is up to a
// quarter slower: TLB misses, and hardware prefetching that stops at each page's end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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

  // Gives the memory of a piece, or of a part, back to the system: it reads as zeros
  // from then on, and is given again when it is written. Whole huge pages stay huge.
  // Safe for concurrent use with other pieces. REQUIRES: both are whole pages.
  static void GiveBack(void* begin, int64_t bytes);
  // Has the system give the memory now, where it can; what is in it stays, even while
  // others write to it.
  static void Populate(void* begin, int64_t bytes);
  static constexpr int64_t kHugePage = int64_t{2} << 20;

  // Handed out, in whole cache lines.
  int64_t bytes() const { return bytes_; }
  // All that was handed out, in as many parts as it lies in.
  std::vector<std::span<const std::byte>> parts() const;

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
