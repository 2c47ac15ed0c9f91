// SPDX-License-Identifier: MIT
// A step program on a device, ready to be launched for up to kStepRows rows: weights,
// buffers, and the calls and graphs of launches for each power of two of rows.
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
#include "model/program/device/device_input.h"
#include "model/program/device/device_program.h"
#include "model/program/device/device_runner.h"
#include "model/program/device/device_shape.h"
#include "model/state/state.h"

namespace mnemon {

// Owned by the runner; its thread makes all calls.
class DeviceStep {
 public:
  // See MakeDeviceRunner, which has checked that the program fits.
  DeviceStep(const StepProgram& program, const StateSpec& spec,
             const PackedWeights& weights, DeviceDriver& driver);

  // Bucket for `rows` rows: the least power of two that holds them.
  static size_t BucketOf(int64_t rows);
  // Layout of a bucket's input in other memory or, as here, on the device.
  static DeviceInput InputOf(size_t bucket, void* memory);
  void* input() const { return input_; }

  // Makes room for attention over `groups` groups, summed over the rows of a wave.
  // Throws std::bad_alloc.
  void MakeRoom(int64_t groups);

  // Queues a step whose input is on the device: `waves` waves, optionally logits and
  // draws. Draws modify the logits; they may be launched later.
  void Launch(size_t bucket, int64_t waves, bool logits, bool draws);
  void LaunchDraws(size_t bucket);
  // Queues the first call of a bucket, which applies the table changes in its input.
  void LaunchPrepare(size_t bucket);
  // Queues a call on the rows of a bucket's input.
  void LaunchCall(size_t bucket, const StepCall& call);

  const DeviceWeights& weights() const { return weights_; }
  const StepBuffers& buffers() const { return buffers_; }
  const Rows& prepared() const { return prepared_; }  // see CallRecorder
  const float* logits() const { return logits_.data; }

 private:
  struct Bucket {
    DeviceProgram program;
    std::unique_ptr<DeviceGraph> wave, logits, draws;
    StepCall* calls = nullptr;  // on the device, for kWholeStep
    StepShape whole;
  };

  // Whether one kernel executes a whole step of a bucket.
  bool Whole(size_t bucket) const;
  Rows TakeRows(int64_t rows, int64_t width);
  std::unique_ptr<DeviceGraph> MakeGraph(size_t bucket,
                                         std::span<const StepCall> calls);
  // Prepares what is launched for a bucket.
  void Prepare(size_t bucket);
  StepLaunch LaunchOf(const StepShape& shape) const;

  DeviceDriver& driver_;
  DeviceWeights weights_;
  DeviceAllocations taken_;
  StepBuffers buffers_;
  Rows last_, logits_, prepared_;
  void* input_ = nullptr;
  uint32_t* arrived_ = nullptr;        // for attention
  int32_t* sample_scratch_ = nullptr;  // for each block
  const bool waves_;                   // a step may have several
  // Scratch of attention. Graphs hold its address, so memory is mapped as needed.
  int64_t group_bytes_ = 0;  // of one group
  DeviceAddresses groups_;
  std::vector<Bucket> buckets_;
};

}  // namespace mnemon
