// SPDX-License-Identifier: MIT
#include "bench/kernels/allocation_count.h"

#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace mnemon {
namespace {

// Keeps the compiler from leaving an allocation out.
void Use(void* p) { asm volatile("" : : "g"(p) : "memory"); }

TEST(AllocationCount, EveryWayOfAllocating) {
  if (!CountsAllocations()) GTEST_SKIP() << "a sanitizer counts in its place";
  const AllocationCount before = CountAllocations();
  void* const plain = std::malloc(100);
  Use(plain);
  const AllocationCount after_malloc = CountAllocations() - before;
  EXPECT_EQ(after_malloc.calls, 1);
  EXPECT_EQ(after_malloc.bytes, 100);
  void* const zeroed = std::calloc(10, 20);
  Use(zeroed);
  EXPECT_EQ((CountAllocations() - before).bytes, 300);
  void* const grown = std::realloc(plain, 400);
  Use(grown);
  EXPECT_EQ((CountAllocations() - before).calls, 3);
  void* aligned = nullptr;
  EXPECT_EQ(posix_memalign(&aligned, 64, 128), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % 64, 0u);
  EXPECT_EQ((CountAllocations() - before).calls, 4);
  auto* const one = new int(1);
  Use(one);
  auto* const many = new (std::align_val_t(128)) char[256];
  Use(many);
  EXPECT_EQ((CountAllocations() - before).calls, 6);
  operator delete[](many, std::align_val_t(128));
  delete one;
  std::free(aligned);
  std::free(grown);
  std::free(zeroed);
  EXPECT_EQ((CountAllocations() - before).calls, 6);
}

TEST(AllocationCount, BadAlignmentIsRefused) {
  if (!CountsAllocations()) GTEST_SKIP() << "a sanitizer refuses in its place";
  void* out = &out;
  EXPECT_NE(posix_memalign(&out, 3, 8), 0);
  EXPECT_NE(posix_memalign(&out, 0, 8), 0);
  EXPECT_EQ(out, &out);
}

TEST(AllocationCount, OfOtherThreadsToo) {
  if (!CountsAllocations()) GTEST_SKIP() << "a sanitizer counts in its place";
  const AllocationCount before = CountAllocations();
  std::thread([] {
    for (int i = 0; i < 1000; ++i) Use(std::make_unique<int>(i).get());
  }).join();
  EXPECT_GE((CountAllocations() - before).calls, 1000);
}

}  // namespace
}  // namespace mnemon
