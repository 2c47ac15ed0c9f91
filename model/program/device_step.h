// SPDX-License-Identifier: MIT
// A step program on a device, ready to be launched for up to kStepRows rows: weights,
// buffers, and for each power of two of rows the calls and graphs of launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "model/compute/device/device_addresses.h"
#include "model/compute/device/device_allocations.h"
#include "model/compute/device/device_driver.h"
#include "model/program/device_input.h"
#include "model/program/device_program.h"
#include "model/program/device_runner.h"
#include "model/program/device_shape.h"
#include "model/state/state.h"

namespace mnemon {

// Owned by the runner; its thread makes all calls.
class DeviceStep {
 public:
  // As MakeDeviceRunner, which has checked that it fits.
  DeviceStep(const StepProgram& program, const StateSpec& spec,
             const PackedWeights& weights, DeviceDriver& driver);

  // For `rows` rows: the least power of two that holds them.
  static size_t BucketOf(int64_t rows);
  // The input of a bucket's launches, in other memory or, as here, on the device.
  static DeviceInput InputOf(size_t bucket, void* memory);
  void* input() const { return input_; }

  // Room for attention in so many groups, of all rows of a wave together. Throws
  // std::bad_alloc.
  void MakeRoom(int64_t groups);

  // Queues a step whose input is on the device: so many waves, with logits and draws or
  // without. Draws change logits; they may follow later.
  void Launch(size_t bucket, int64_t waves, bool logits, bool draws);
  void LaunchDraws(size_t bucket);
  // Queues the first call of a bucket, the changes of tables in its input.
  void LaunchPrepare(size_t bucket);
  // Queues a call on the rows of a bucket's input.
  void LaunchCall(size_t bucket, const StepCall& call);

  const DeviceWeights& weights() const { return weights_; }
  const StepBuffers& buffers() const { return buffers_; }
  const Rows& prepared() const { return prepared_; }  // as of CallRecorder
  const float* logits() const { return logits_.data; }

 private:
  struct Bucket {
    DeviceProgram program;
    std::unique_ptr<DeviceGraph> wave, logits, draws;
    StepCall* calls = nullptr;  // on the device, for kWholeStep
    StepShape whole;
  };

  // Whether a step of a bucket is one kernel.
  bool Whole(size_t bucket) const;
  Rows TakeRows(int64_t rows, int64_t width);
  std::unique_ptr<DeviceGraph> MakeGraph(size_t bucket,
                                         std::span<const StepCall> calls);
  // Of a bucket, what is launched.
  void Prepare(size_t bucket);
  StepLaunch LaunchOf(const StepShape& shape) const;

  DeviceDriver& driver_;
  DeviceWeights weights_;
  DeviceAllocations taken_;
  StepBuffers buffers_;
  Rows last_, logits_, prepared_;
  void* input_ = nullptr;
  uint32_t* arrived_ = nullptr;        // of attention
  int32_t* sample_scratch_ = nullptr;  // of each block
  const bool waves_;                   // there may be several in a step
  // Scratch of attention, which graphs have the address of: mapped as far as it is
  // needed.
  int64_t group_bytes_ = 0;  // of one group
  DeviceAddresses groups_;
  std::vector<Bucket> buckets_;
};

}  // namespace mnemon
