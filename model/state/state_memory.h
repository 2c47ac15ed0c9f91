// SPDX-License-Identifier: MIT
// The memory of the blocks of an arena, on the host or on a device that holds states.
// An arena only calculates with addresses; it reads and writes numbers through these
// calls.
//
// Belongs to one arena and outlives it. Threads: the arena's owner, its recycler, the
// threads that make BlockCopies and those that read and write StateImages call it
// concurrently, for different memory; Take has one call at a time per taker.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"

namespace mnemon {

class StateMemory {
 public:
  // The thread of the caller: the arena's owner's or its recycler's.
  enum class Taker { kOwner, kRecycler };
  // Memory is taken and returned in whole units.
  static constexpr int64_t kUnit = int64_t{2} << 20;

  StateMemory() = default;
  virtual ~StateMemory() = default;
  StateMemory(const StateMemory&) = delete;
  StateMemory& operator=(const StateMemory&) = delete;

  // `bytes` > 0 of zeros, aligned to a cache line; valid until the destructor. Throws
  // std::bad_alloc.
  virtual void* Take(int64_t bytes, Taker taker) = 0;
  // Returns memory from Take to the system. The addresses stay reserved, but are unused
  // until TakeAgain, after which they hold zeros.
  virtual void GiveBack(void* begin, int64_t bytes) = 0;
  // Throws std::bad_alloc; can then be called again.
  virtual void TakeAgain(void* begin, int64_t bytes) = 0;
  // Has the system provide the memory now instead of on first use; keeps its contents,
  // even while others write to it. Best effort.
  virtual void Populate(void* begin, int64_t bytes) = 0;

  // For a device, its free memory. Absent: no limit of its own.
  virtual std::optional<int64_t> free_bytes() const { return std::nullopt; }

  // Operations on numbers of blocks; computations queued afterwards see their effect.
  virtual void Zero(float* to, int64_t count) = 0;
  virtual void Fill(float* to, int64_t count, float value) = 0;
  virtual void Copy(const float* from, float* to, int64_t count) = 0;

  // Copies numbers of blocks to or from host memory; complete when it returns.
  // UNAVAILABLE, DEVICE_LOST: any part may have been copied.
  struct HostCopy {
    float* block;
    float* host;
    int64_t count;
  };
  virtual absl::Status CopyOut(std::span<const HostCopy> copies) = 0;
  virtual absl::Status CopyIn(std::span<const HostCopy> copies) = 0;
};

}  // namespace mnemon
