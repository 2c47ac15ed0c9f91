// SPDX-License-Identifier: MIT
#include "base/memory/heap_trim.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace mnemon {
namespace {

int64_t ResidentBytes() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Small pieces of which the last is kept, so that nothing lies at the end of the arena.
std::unique_ptr<char[]> Flood(int64_t bytes) {
  constexpr int64_t kPiece = 4096;
  std::vector<std::unique_ptr<char[]>> pieces;
  for (int64_t i = 0; i < bytes / kPiece; ++i) {
    pieces.push_back(std::make_unique<char[]>(kPiece));
  }
  return std::move(pieces.back());
}

TEST(HeapTrim, ReturnsWhatAFloodHasLeft) {
  // malloc of a sanitizer has no arenas.
  if (std::getenv("MNEMON_SANITIZED") != nullptr) GTEST_SKIP() << "sanitized";
  HeapTrim trim;
  trim.TrimIfWorth();
  EXPECT_FALSE(trim.TrimIfWorth());
  const int64_t before = ResidentBytes();
  std::unique_ptr<char[]> here, other;
  here = Flood(64 << 20);
  std::thread([&other] { other = Flood(64 << 20); }).join();
  ASSERT_GT(ResidentBytes(), before + (100 << 20));
  EXPECT_TRUE(trim.TrimIfWorth());
  EXPECT_LT(ResidentBytes(), before + (20 << 20));
  // Once is enough, until there is more.
  EXPECT_FALSE(trim.TrimIfWorth());
  // Also where it is the same memory again.
  here = Flood(64 << 20);
  EXPECT_TRUE(trim.TrimIfWorth());
  EXPECT_LT(ResidentBytes(), before + (20 << 20));
}

}  // namespace
}  // namespace mnemon
