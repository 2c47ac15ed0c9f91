// SPDX-License-Identifier: MIT
// A device that computes steps, as one model has it: memory, and a queue of work. Other
// models may have the same device by drivers of their own.
//
// Work is done in the order of the calls that queue it, whichever threads make them,
// after they return; nothing but Wait waits for it. Memory that queued work uses stays
// as it is until that is done.
//
// Errors: what takes memory throws std::bad_alloc where there is none. A device that
// fails is lost: from then on nothing is done any more, memory cannot be taken, and
// every Wait returns why, UNAVAILABLE, DEVICE_LOST, until Restart. It is lost to all
// drivers, each of which restarts.
//
// Threads: any, at once; BeginGraph, EndGraph and what is between them, and Restart,
// while no other thread makes calls.
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
  int processors = 1;        // blocks that run at once, one on each
  int64_t shared_bytes = 0;  // of a block, at most
  // Up to so many rows one kernel does a whole step sooner than a launch for each call.
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
  // Whether it is lost.
  virtual bool lost() const = 0;

  // Of the device's memory, what nobody has taken; 0 where it is lost.
  virtual int64_t free_bytes() = 0;
  // Memory of the device, of any content; at least on 256 bytes. Given back when all
  // that was queued before is done.
  virtual void* Take(int64_t bytes) = 0;
  virtual void GiveBack(void* memory) = 0;
  // Addresses without memory, and memory for whole units of kUnit bytes of them, of any
  // content. What is unmapped is given back at once: REQUIRES that no queued work uses
  // it. Addresses are given back with the memory that is mapped there, when all that
  // was queued before is done.
  static constexpr int64_t kUnit = int64_t{2} << 20;
  virtual char* TakeAddresses(int64_t bytes) = 0;
  virtual void GiveBackAddresses(char* begin) = 0;
  virtual void Map(char* begin, int64_t bytes) = 0;
  virtual void Unmap(char* begin, int64_t bytes) = 0;
  // Memory of the host that copies are fast from and to.
  virtual void* TakePinned(int64_t bytes) = 0;
  virtual void GiveBackPinned(void* memory) = 0;

  // Queued. A copy from or to memory that is not pinned may wait for what was queued
  // before.
  virtual void CopyIn(const void* host, void* device, int64_t bytes) = 0;
  virtual void CopyOut(const void* device, void* host, int64_t bytes) = 0;
  virtual void Copy(const void* from, void* to, int64_t bytes) = 0;
  virtual void Fill(float* to, int64_t count, float value) = 0;
  virtual void Launch(StepKernel kernel, const LaunchShape& shape,
                      const StepLaunch& launch) = 0;
  virtual void Launch(const DeviceGraph& graph) = 0;

  // The launches between the two calls, which are not queued.
  virtual void BeginGraph() = 0;
  virtual std::unique_ptr<DeviceGraph> EndGraph() = 0;

  // The end of what is queued now; marks rise.
  virtual int64_t Mark() = 0;
  // Waits until all before the mark is done.
  virtual absl::Status Wait(int64_t mark) = 0;

  // Makes a lost device usable again: all memory, addresses and graphs that this driver
  // had are gone, and may still be given back; pinned memory is not. UNAVAILABLE where
  // it stays lost.
  virtual absl::Status Restart() = 0;
};

}  // namespace mnemon
