// SPDX-License-Identifier: MIT
// An emulator of a GPU on which device code (model/compute/cuda/device.h) runs on the
// host: each thread of each block is a fiber, all of one process's thread. A fiber runs
// until it comes to a barrier, shuffle or product of bytes, or ends; which one goes on
// next is drawn from a seed, and one of them falls behind for a while. Threads thus run
// ahead of each other as far as their barriers allow, and code that lacks a barrier
// reads different values from seed to seed. Some copies ahead are made at once, others
// when they are awaited. It does not find three kinds of mistakes: a shuffle or product
// in place of a barrier, since all earlier writes are visible after it; a number that
// several threads read, change and write without an atomic operation, since none is
// interrupted there; and a missing Fence, since memory has one order for all. Shared
// memory is initialised with garbage, different for each block, and is exactly as large
// as the launch says, for AddressSanitizer.
//
// Threads: one emulator at a time in each thread.
#pragma once

#include <cstdint>
#include <functional>

namespace mnemon {

struct DeviceLaunch {
  int blocks = 2;
  int threads = 64;  // of each block: whole warps
  int64_t shared_bytes = 0;
};

// Runs `kernel` in each thread of a launch. Throws std::logic_error, which names a
// thread, if threads of a block or warp do not synchronise when they should, or do so
// at different lines of the code.
void RunOnDevice(const DeviceLaunch& launch, uint64_t seed,
                 const std::function<void()>& kernel);

}  // namespace mnemon
