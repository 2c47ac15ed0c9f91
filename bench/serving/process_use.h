// SPDX-License-Identifier: MIT
// Resources of a process at one moment.
#pragma once

#include <sys/types.h>

namespace mnemon::serving {

struct ProcessUse {
  double megabytes = 0;  // resident, of 10^6 bytes; 0: the process is gone
  // Without the tables of a store, which keeps some hundreds of them open.
  int descriptors = 0;
  int threads = 0;
};
ProcessUse UseOf(pid_t pid);

}  // namespace mnemon::serving
