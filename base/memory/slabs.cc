// SPDX-License-Identifier: MIT
#include "base/memory/slabs.h"

#include <sys/mman.h>

#include <algorithm>
#include <limits>
#include <new>

namespace mnemon {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kSlab = int64_t{32} << 20;
constexpr int64_t kHugePage = Slabs::kHugePage;

int64_t Whole(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Zeros, aligned to a huge page.
char* Map(int64_t size) {
  const int64_t most = size + kHugePage;
  void* mapped = mmap(nullptr, static_cast<size_t>(most), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  char* const all = static_cast<char*>(mapped);
  const int64_t before = Whole(reinterpret_cast<intptr_t>(all), kHugePage) -
                         reinterpret_cast<intptr_t>(all);
  if (before > 0) munmap(all, static_cast<size_t>(before));
  char* const begin = all + before;
  munmap(begin + size, static_cast<size_t>(most - before - size));
  madvise(begin, static_cast<size_t>(size), MADV_HUGEPAGE);  // best effort
  return begin;
}

}  // namespace

Slabs::~Slabs() {
  for (const Slab& slab : slabs_) munmap(slab.begin, static_cast<size_t>(slab.size));
}

void* Slabs::Take(int64_t bytes) {
  if (bytes > std::numeric_limits<int64_t>::max() - 2 * kSlab) throw std::bad_alloc();
  const int64_t whole = Whole(bytes, kLine);
  if (slabs_.empty() || slabs_.back().size - slabs_.back().used < whole) {
    const int64_t size = std::max(kSlab, Whole(whole, kHugePage));
    slabs_.emplace_back();  // first, so that nothing leaks if this throws
    try {
      slabs_.back() = {.begin = Map(size), .size = size};
    } catch (...) {
      slabs_.pop_back();
      throw;
    }
  }
  Slab& slab = slabs_.back();
  void* piece = slab.begin + slab.used;
  slab.used += whole;
  bytes_ += whole;
  return piece;
}

// MADV_DONTNEED, not MADV_FREE: with the latter, the memory counts as the process's
// until the system runs short, and reads until then may return old data or zeros. In
// pieces, since each holds a lock of the address space that new mappings wait for.
void Slabs::GiveBack(void* begin, int64_t bytes) {
  char* const first = static_cast<char*>(begin);
  for (int64_t at = 0; at < bytes; at += kHugePage) {
    const int64_t piece = std::min(kHugePage, bytes - at);
    madvise(first + at, static_cast<size_t>(piece), MADV_DONTNEED);
  }
}

void Slabs::Populate(void* begin, int64_t bytes) {
  madvise(begin, static_cast<size_t>(bytes), MADV_POPULATE_WRITE);  // best effort
}

std::vector<std::span<const std::byte>> Slabs::parts() const {
  std::vector<std::span<const std::byte>> parts;
  for (const Slab& slab : slabs_) {
    parts.emplace_back(reinterpret_cast<const std::byte*>(slab.begin),
                       static_cast<size_t>(slab.used));
  }
  return parts;
}

float* Slabs::TakeFloats(int64_t count) {
  return static_cast<float*>(Take(count * static_cast<int64_t>(sizeof(float))));
}

}  // namespace mnemon
