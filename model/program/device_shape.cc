// SPDX-License-Identifier: MIT
#include "model/program/device_shape.h"

#include <algorithm>

#include "model/kernels/cuda/attend.h"
#include "model/kernels/cuda/fast_weights.h"
#include "model/kernels/cuda/linear.h"
#include "model/program/device_program.h"

namespace mnemon {
namespace {

// Blocks beyond those that run at once wait for them.
constexpr int kBlocksPerProcessor = 8;

// Floats of shared memory that a block of `threads` can use for a call.
int64_t SharedFloats(const StepCall& call, int64_t rows, int threads) {
  switch (call.kind) {
    case StepCallKind::kLinear: {
      const MatrixView& matrix = call.linear.weights;
      return device::ProductFloats(matrix, matrix.slices(),
                                   std::min<int64_t>(rows, device::kTileRows), threads);
    }
    case StepCallKind::kAttend:
      return device::AttendFloats(threads);
    case StepCallKind::kFastWeights:
      return device::FastWeightFloats(call.fast_weights, threads);
    default:
      return 0;
  }
}

int64_t ScratchFloats(const StepCall& call, int64_t groups, int threads) {
  if (call.kind != StepCallKind::kAttend) return 0;
  AttendCall attend = call.attend;
  attend.groups = groups;
  return device::AttendScratch(attend, threads);
}

// Parts of a call that blocks can share.
int64_t Units(const StepCall& call, int64_t rows, int threads) {
  const int64_t warps = threads / device::kWarp;
  switch (call.kind) {
    case StepCallKind::kTables:
    case StepCallKind::kNextWave:
      return 1;
    case StepCallKind::kLinear:
      return call.linear.weights.panel_count();
    case StepCallKind::kAppend:
      return rows * call.append.heads / warps;
    case StepCallKind::kAttend:
      return rows * call.attend.heads / warps;
    case StepCallKind::kFastWeights:
      return rows * call.fast_weights.heads / warps;
    case StepCallKind::kEmbed:
    case StepCallKind::kMix:
    case StepCallKind::kKeep:
      return rows;
  }
  return 1;
}

StepShape Shape(int64_t blocks, int threads, int64_t shared, int64_t scratch) {
  return {.launch = {.blocks = static_cast<int>(blocks),
                     .threads = threads,
                     .shared_bytes = FloatBytes(shared)},
          .shared_floats = shared,
          .scratch_floats = scratch};
}

}  // namespace

StepShape ShapeOf(const StepCall& call, int64_t rows, int64_t groups,
                  const DeviceLimits& limits) {
  const int64_t most = int64_t{limits.processors} * kBlocksPerProcessor;
  const int64_t blocks =
      std::clamp<int64_t>(Units(call, rows, kOneCallThreads), 1, most);
  return Shape(blocks, kOneCallThreads,
               std::min(SharedFloats(call, rows, kOneCallThreads),
                        limits.shared_bytes / FloatBytes(1)),
               ScratchFloats(call, groups, kOneCallThreads));
}

StepShape ShapeOf(std::span<const StepCall> calls, int64_t rows, int64_t groups,
                  const DeviceLimits& limits) {
  int64_t shared = 0, scratch = 0;
  for (const StepCall& call : calls) {
    shared = std::max(shared, SharedFloats(call, rows, kWholeStepThreads));
    scratch = std::max(scratch, ScratchFloats(call, groups, kWholeStepThreads));
  }
  return Shape(limits.processors, kWholeStepThreads,
               std::min(shared, limits.shared_bytes / FloatBytes(1)), scratch);
}

int64_t LeastSharedBytes(const StepProgram& program) {
  const DeviceInput input(/*rows=*/1, nullptr);
  const DeviceProgram made = MakeDeviceProgram(
      program, nullptr, {.input = input, .buffers = {}, .last = {}, .logits = {}});
  int64_t floats = 0;
  for (const auto* calls : {&made.wave, &made.logits}) {
    for (const StepCall& call : *calls) {
      for (const int threads : {kOneCallThreads, kWholeStepThreads}) {
        floats = std::max(floats, SharedFloats(call, /*rows=*/1, threads));
      }
    }
  }
  return FloatBytes(floats);
}

}  // namespace mnemon
