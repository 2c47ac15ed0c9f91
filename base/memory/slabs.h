// SPDX-License-Identifier: MIT
// Bump allocator in huge pages, if the system has them, for memory that is read
// repeatedly. All pieces are freed together. In small pages a step is up to a quarter
// slower: TLB misses, and hardware prefetching that stops at each page's end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mnemon {

// Reserves address space in large slabs; the system provides memory when a piece is
// first written or read. Not safe for concurrent use.
class Slabs {
 public:
  Slabs() = default;
  ~Slabs();
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;

  // `bytes` > 0 of zeros, aligned to a cache line; valid until the destructor. Throws
  // std::bad_alloc.
  void* Take(int64_t bytes);
  float* TakeFloats(int64_t count);

  // Returns the memory of a piece, or of a part, to the system: it then reads as zeros,
  // and gets memory again when written. Whole huge pages stay huge. Safe for concurrent
  // use with other pieces. REQUIRES: whole pages.
  static void GiveBack(void* begin, int64_t bytes);
  // Has the system provide the memory now, if it can; keeps the contents, even while
  // others write.
  static void Populate(void* begin, int64_t bytes);
  static constexpr int64_t kHugePage = int64_t{2} << 20;

  // Bytes handed out, in whole cache lines.
  int64_t bytes() const { return bytes_; }
  // The handed-out memory, one span per contiguous part.
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
