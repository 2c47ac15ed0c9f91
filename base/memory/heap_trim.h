// SPDX-License-Identifier: MIT
// Returns freed memory from malloc to the system. By itself malloc returns only the end
// of an arena, and keeps a peak's memory for ever.
#pragma once

#include <cstdint>

namespace mnemon {

// Used by one thread. Calls hold malloc's locks, one arena at a time.
class HeapTrim {
 public:
  // Returns free memory if there is kWorth more of it than after the last time, or if
  // the process has grown by twice as much, which may be memory that was used and freed
  // meanwhile. Call it about once a second. Returns whether it trimmed.
  bool TrimIfWorth();

  static constexpr int64_t kWorth = int64_t{16} << 20;  // bytes

 private:
  // At the last trim, or the minimum since then.
  int64_t free_ = 0;      // bytes of malloc's arenas
  int64_t resident_ = 0;  // bytes of the process
};

}  // namespace mnemon
