// SPDX-License-Identifier: MIT
// A device that computes steps, as one model uses it: memory and a queue of work. Other
// models may use the same device through drivers of their own.
//
// Work is executed in the order of the calls that queue it, from any threads, after
// they return; only Wait waits for it. Memory that queued work uses must stay until it
// is done.
//
// Errors: calls that allocate throw std::bad_alloc without memory. A device that fails
// is lost: nothing is executed any more, memory cannot be allocated, and every Wait
// returns the reason (UNAVAILABLE, DEVICE_LOST) until Restart. It is lost to all
// drivers, each of which restarts.
//
// Threads: any, at once; but BeginGraph, EndGraph and the calls between them, and
// Restart, only while no other thread makes calls.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "model/operations/cuda/step_call.h"

namespace mnemon {

inline constexpr int64_t FloatBytes(int64_t count) {
  return count * static_cast<int64_t>(sizeof(float));
}

struct DeviceLimits {
  std::string name;          // "NVIDIA H100 80GB HBM3"
  int processors = 1;        // blocks that run at once, one per processor
  int64_t shared_bytes = 0;  // most per block
  // Up to this many rows, one kernel for the whole step is faster than a launch per
  // call.
  int64_t whole_step_rows = 0;
};

enum class StepKernel {
  kOneCall,    // StepLaunch::call
  kWholeStep,  // StepLaunch::calls
};

struct LaunchShape {
  int blocks = 1;  // kWholeStep: at most `processors`
  int threads = 32;
  int64_t shared_bytes = 0;
};

// Launches that are queued together. Must be destroyed before its driver.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
};

class DeviceDriver {
 public:
  virtual ~DeviceDriver() = default;

  virtual const DeviceLimits& limits() const = 0;
  // Whether the device is lost.
  virtual bool lost() const = 0;

  // Free memory of the device; 0 if it is lost.
  virtual int64_t free_bytes() = 0;
  // Allocates device memory of arbitrary content, aligned to at least 256 bytes.
  // GiveBack frees it when all work queued before is done.
  virtual void* Take(int64_t bytes) = 0;
  virtual void GiveBack(void* memory) = 0;
  // Address ranges without memory, and memory of arbitrary content for whole units of
  // kUnit bytes of them. Unmap frees memory at once: REQUIRES that no queued work uses
  // it. GiveBackAddresses also frees the memory mapped there, when all work queued
  // before is done.
  static constexpr int64_t kUnit = int64_t{2} << 20;
  virtual char* TakeAddresses(int64_t bytes) = 0;
  virtual void GiveBackAddresses(char* begin) = 0;
  virtual void Map(char* begin, int64_t bytes) = 0;
  virtual void Unmap(char* begin, int64_t bytes) = 0;
  // Pinned host memory, for fast copies.
  virtual void* TakePinned(int64_t bytes) = 0;
  virtual void GiveBackPinned(void* memory) = 0;

  // Queued. A copy from or to memory that is not pinned may wait for earlier work.
  virtual void CopyIn(const void* host, void* device, int64_t bytes) = 0;
  virtual void CopyOut(const void* device, void* host, int64_t bytes) = 0;
  virtual void Copy(const void* from, void* to, int64_t bytes) = 0;
  virtual void Fill(float* to, int64_t count, float value) = 0;
  virtual void Launch(StepKernel kernel, const LaunchShape& shape,
                      const StepLaunch& launch) = 0;
  virtual void Launch(const DeviceGraph& graph) = 0;

  // Captures the launches between the two calls, which are not queued.
  virtual void BeginGraph() = 0;
  virtual std::unique_ptr<DeviceGraph> EndGraph() = 0;

  // Marks the end of the work queued so far; marks ascend.
  virtual int64_t Mark() = 0;
  // Waits until all work before the mark is done.
  virtual absl::Status Wait(int64_t mark) = 0;

  // Makes a lost device usable again. All memory, addresses and graphs of this driver
  // are gone but may still be freed; pinned memory stays. UNAVAILABLE if it stays lost.
  virtual absl::Status Restart() = 0;
};

}  // namespace mnemon
