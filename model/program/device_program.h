// SPDX-License-Identifier: MIT
// A step program as calls with addresses of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/compute/device/device_allocations.h"
#include "model/compute/device/device_driver.h"
#include "model/compute/packed_weights.h"
#include "model/operations/cuda/step_call.h"
#include "model/program/device_input.h"
#include "model/program/step_calls.h"
#include "model/program/step_program.h"

namespace mnemon {

// The weights of a program in the memory of a device.
class DeviceWeights {
 public:
  // Copies what the program points to; all of it but angles lies in `weights`. All
  // must outlive it. Throws std::bad_alloc.
  DeviceWeights(const StepProgram& program, const PackedWeights& weights,
                DeviceDriver& driver);

  // Where the device has what the host has there; null stays null.
  template <class T>
  const T* Of(const T* host) const {
    return static_cast<const T*>(Find(host));
  }

 private:
  struct Region {
    const std::byte* host;
    int64_t bytes;
    std::byte* device;
  };
  const void* Find(const void* host) const;
  void Take(std::span<const std::byte> host, DeviceDriver& driver);

  DeviceAllocations taken_;
  std::vector<Region> regions_;
};

// A worker of an OperationPass that notes calls instead of making them, with addresses
// of the device.
class CallRecorder {
 public:
  // `weights` outlives it; null: weights stay where the host has them. `input`: where
  // groups of keys are counted; where there is no attention, null. `prepared`: linear
  // calls are tiled, for launches of their own, and this is where their rows are
  // prepared; null: they are those of a whole step.
  explicit CallRecorder(const DeviceWeights* weights,
                        const DeviceInput* input = nullptr,
                        const Rows* prepared = nullptr)
      : weights_(weights), input_(input), prepared_(prepared) {}

  StepCall& Add(StepCallKind kind);
  void Embed(const EmbedCall& call);
  void Linear(const LinearCall& call);
  void Turn(const TurnCall& call);
  void Append(const AppendCall& call);
  void Attend(const AttendCall& call);
  void FastWeights(const FastWeightCall& call);
  void Mix(const MixCall& call);
  void Norm(const NormCall& call);
  void Keep(const KeepCall& call);
  void Sample(const device::SampleCall& call);
  void Sync() { calls_.back().meets = true; }

  std::vector<StepCall> TakeCalls() { return std::move(calls_); }

 private:
  template <class T>
  const T* Of(const T* host) const {
    return weights_ == nullptr ? host : weights_->Of(host);
  }
  MatrixView Moved(MatrixView matrix) const;
  NormView Moved(NormView norm) const;

  const DeviceWeights* const weights_;
  const DeviceInput* const input_;
  const Rows* const prepared_;
  std::vector<StepCall> calls_;
};

struct DeviceProgram {
  std::vector<StepCall> wave;    // of each wave
  std::vector<StepCall> logits;  // behind them, where some are computed
  std::vector<StepCall> draws;   // behind these, where tokens are drawn
};

// Where the rows of a step are on the device.
struct DeviceRows {
  const DeviceInput& input;
  StepBuffers buffers;
  Rows last;                       // [rows, D], of a program with a RememberOp
  Rows logits;                     // [rows, V]
  const Rows* prepared = nullptr;  // as of CallRecorder
};

// `weights` as of CallRecorder.
DeviceProgram MakeDeviceProgram(const StepProgram& program,
                                const DeviceWeights* weights, const DeviceRows& rows);

}  // namespace mnemon
