// SPDX-License-Identifier: MIT
// A step program as calls with device addresses.
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
#include "model/program/device/device_input.h"
#include "model/program/step/step_calls.h"
#include "model/program/step/step_program.h"

namespace mnemon {

// The weights of a program in device memory.
class DeviceWeights {
 public:
  // Copies what the program points to; everything but angles lies in `weights`. All
  // arguments must outlive it. Throws std::bad_alloc.
  DeviceWeights(const StepProgram& program, const PackedWeights& weights,
                DeviceDriver& driver);

  // Device address of the copy of `host`; null stays null.
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

// Worker for OperationPass that records calls with device addresses instead of
// executing them.
class CallRecorder {
 public:
  // `weights` must outlive it; null: weights stay at their host addresses. `input`:
  // where groups of keys are counted; null without attention. `prepared`: buffer for
  // prepared rows of linear calls, which are tiled for launches of their own; null:
  // linear calls are those of a kernel for the whole step.
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
  std::vector<StepCall> wave;    // for each wave
  std::vector<StepCall> logits;  // then, if any logits are wanted
  std::vector<StepCall> draws;   // then, if any tokens are drawn
};

// Device addresses of the rows of a step.
struct DeviceRows {
  const DeviceInput& input;
  StepBuffers buffers;
  Rows last;                       // [rows, D], with a RememberOp
  Rows logits;                     // [rows, V]
  const Rows* prepared = nullptr;  // see CallRecorder
};

// `weights`: see CallRecorder.
DeviceProgram MakeDeviceProgram(const StepProgram& program,
                                const DeviceWeights* weights, const DeviceRows& rows);

}  // namespace mnemon
