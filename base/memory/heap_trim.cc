// SPDX-License-Identifier: MIT
#include "base/memory/heap_trim.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/descriptor.h"

namespace mnemon {
namespace {

// Of all arenas, including returned memory, since malloc may use it again.
int64_t FreeBytes() { return static_cast<int64_t>(mallinfo2().fordblks); }

// 0 if it cannot be read.
int64_t ResidentBytes() {
  const Descriptor file(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  char text[128] = {};
  long size = 0, resident = 0;
  if (read(file.get(), text, sizeof(text) - 1) <= 0 ||
      std::sscanf(text, "%ld %ld", &size, &resident) != 2) {
    return 0;
  }
  return int64_t{resident} * sysconf(_SC_PAGESIZE);
}

}  // namespace

bool HeapTrim::TrimIfWorth() {
  const int64_t free = FreeBytes();
  const int64_t resident = ResidentBytes();
  if (free <= free_ + kWorth && resident <= resident_ + 2 * kWorth) {
    free_ = std::min(free_, free);
    resident_ = std::min(resident_, resident);
    return false;
  }
  malloc_trim(0);
  free_ = FreeBytes();
  resident_ = ResidentBytes();
  return true;
}

}  // namespace mnemon
