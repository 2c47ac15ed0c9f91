// SPDX-License-Identifier: MIT
#include "train/fit/stop_signal.h"

#include <unistd.h>

#include <cstdio>

namespace mnemon {
namespace {

constexpr int kPollMs = 50;
constexpr int kInterrupted = 130;

}  // namespace

StopSignal::StopSignal() : watcher_([this] { Watch(); }) {}

StopSignal::~StopSignal() {
  done_ = true;
  watcher_.join();
}

void StopSignal::Watch() {
  while (!done_) {
    if (waiter_.WaitFor(kPollMs) == 0) continue;
    if (requested_.exchange(true)) {
      std::fprintf(stderr, "\nstopped at once; the last checkpoint is intact\n");
      _exit(kInterrupted);
    }
    std::fprintf(stderr, "\nsaving; once more to stop at once\n");
  }
}

}  // namespace mnemon
