// SPDX-License-Identifier: MIT
// The memory that the blocks of an arena lie in: the host's, or a device's that holds
// states. An arena itself only reckons with addresses in it: whatever it reads or
// writes of the numbers in its blocks goes through these calls.
//
// Belongs to one arena and outlives it. Threads: the arena's owner, its recycler, those
// that make BlockCopies, and those that read and write StateImages call it at once,
// with different memory; of Take, one call at a time for each taker.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"

namespace mnemon {

class StateMemory {
 public:
  // On whose thread: the arena's owner's or its recycler's.
  enum class Taker { kOwner, kRecycler };
  // What is taken and given back are whole ones of these.
  static constexpr int64_t kUnit = int64_t{2} << 20;

  StateMemory() = default;
  virtual ~StateMemory() = default;
  StateMemory(const StateMemory&) = delete;
  StateMemory& operator=(const StateMemory&) = delete;

  // `bytes` > 0 of zeros that begin on a cache line; valid until the destructor. Throws
  // std::bad_alloc.
  virtual void* Take(int64_t bytes, Taker taker) = 0;
  // Gives the memory of what Take returned back to the system. The addresses stay
  // taken, but are not used until TakeAgain, after which zeros are there.
  virtual void GiveBack(void* begin, int64_t bytes) = 0;
  // Throws std::bad_alloc; it can be called again then.
  virtual void TakeAgain(void* begin, int64_t bytes) = 0;
  // Has the system give the memory now, where it would wait for the first use; what is
  // in it stays, even while others write to it. Best effort.
  virtual void Populate(void* begin, int64_t bytes) = 0;

  // Of a device, what is left of its memory. Absent: it has no end of its own.
  virtual std::optional<int64_t> free_bytes() const { return std::nullopt; }

  // Numbers of blocks; what is computed after they return finds them done.
  virtual void Zero(float* to, int64_t count) = 0;
  virtual void Fill(float* to, int64_t count, float value) = 0;
  virtual void Copy(const float* from, float* to, int64_t count) = 0;

  // Numbers of blocks to the host's memory, or from there, which have been copied when
  // it returns. UNAVAILABLE, DEVICE_LOST: any part of them was.
  struct HostCopy {
    float* block;
    float* host;
    int64_t count;
  };
  virtual absl::Status CopyOut(std::span<const HostCopy> copies) = 0;
  virtual absl::Status CopyIn(std::span<const HostCopy> copies) = 0;
};

}  // namespace mnemon
