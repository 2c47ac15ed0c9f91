// SPDX-License-Identifier: MIT
// What a process has of the machine at one moment.
#pragma once

#include <sys/types.h>

namespace mnemon::serving {

struct ProcessUse {
  double megabytes = 0;  // resident, of 10^6 bytes; 0: the process is gone
  // But for tables of a store, of which it keeps some hundred open.
  int descriptors = 0;
  int threads = 0;
};
ProcessUse UseOf(pid_t pid);

}  // namespace mnemon::serving
