// SPDX-License-Identifier: MIT
// The return of freed memory from malloc to the system. By itself malloc returns only
// what lies at the end of an arena, and keeps a flood's memory for ever.
#pragma once

#include <cstdint>

namespace mnemon {

// One thread. Its calls hold malloc's locks, one arena at a time.
class HeapTrim {
 public:
  // Returns free memory when there is kWorth more of it than after the last time, or
  // the process has grown by twice as much, which may be memory that was used and freed
  // meanwhile. To be called about once a second. True: it did.
  bool TrimIfWorth();

  static constexpr int64_t kWorth = int64_t{16} << 20;  // bytes

 private:
  // As of the last time, or the least since then.
  int64_t free_ = 0;      // bytes of malloc's arenas
  int64_t resident_ = 0;  // bytes of the process
};

}  // namespace mnemon
