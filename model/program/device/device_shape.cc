// SPDX-License-Identifier: MIT
#include "model/program/device/device_shape.h"

#include <algorithm>

#include "model/blocks/attention/kernels/attend_cuda.h"
#include "model/blocks/fast_weights/step_cuda.h"
#include "model/compute/cuda/plan_linear.h"
#include "model/compute/cuda/sample.h"
#include "model/compute/cuda/tiled_linear.h"
#include "model/program/device/device_program.h"

namespace mnemon {
namespace {

// Blocks beyond those that run at once must wait.
constexpr int kBlocksPerProcessor = 8;
constexpr auto kSampleFloats =
    static_cast<int64_t>((sizeof(device::SampleShared) + 15) / 16 * 4);

// Floats of shared memory that a block of `threads` can use for its share of a call on
// up to `rows` rows.
int64_t SharedFloats(const StepCall& call, int64_t rows, int64_t blocks, int threads) {
  switch (call.kind) {
    case StepCallKind::kLinear:
      return device::LinearFloats(call.linear.call,
                                  std::min<int64_t>(rows, device::kTileRows), threads);
    case StepCallKind::kPrepareRows:
      return device::PrepareRowsFloats(call.linear.call.weights);
    case StepCallKind::kTiledLinear:
      return device::TiledLinearFloats(
          rows, std::min<int64_t>(threads / device::kWarp,
                                  call.linear.call.weights.slices()));
    case StepCallKind::kAttend:
      return device::AttendFloats(call.attend.call, threads);
    case StepCallKind::kFastWeights: {
      const int64_t heads = rows * call.fast_weights.heads;
      return device::FastWeightFloats(call.fast_weights, threads,
                                      (heads + blocks - 1) / blocks);
    }
    case StepCallKind::kSample:
      return kSampleFloats;
    default:
      return 0;
  }
}

// Minimum for the call.
int64_t LeastSharedFloats(const StepCall& call, int threads) {
  if (call.kind == StepCallKind::kFastWeights) {
    return device::FastWeightLeastFloats(call.fast_weights, threads);
  }
  if (call.kind == StepCallKind::kTiledLinear) {
    return device::TiledLinearFloats(kStepRows, /*warps=*/1);
  }
  return SharedFloats(call, /*rows=*/1, /*blocks=*/1, threads);
}

// Parts of a call that can be divided among blocks.
int64_t Units(const StepCall& call, int64_t rows, int threads) {
  const int64_t warps = threads / device::kWarp;
  switch (call.kind) {
    case StepCallKind::kPrepare:
    case StepCallKind::kNextWave:
      return 1;
    case StepCallKind::kLinear:
      return device::LinearUnits(call.linear.call.weights);
    case StepCallKind::kPrepareRows:
      return rows;
    case StepCallKind::kTiledLinear:
      return device::Tiles(call.linear.call.weights, rows);
    case StepCallKind::kTurn:
      return rows * call.turn.groups * call.turn.group_heads() / warps;
    case StepCallKind::kAppend:
      return rows * call.append.call.heads / warps;
    case StepCallKind::kAttend:
      return rows * call.attend.call.heads / warps;
    case StepCallKind::kFastWeights:
      return rows * call.fast_weights.heads;
    case StepCallKind::kNorm:
      return rows / warps;
    case StepCallKind::kEmbed:
    case StepCallKind::kMix:
    case StepCallKind::kKeep:
    case StepCallKind::kSample:
      return rows;
  }
  return 1;
}

int64_t MostFloats(const DeviceLimits& limits) {
  return limits.shared_bytes / FloatBytes(1);
}

}  // namespace

StepShape ShapeOf(const StepCall& call, int64_t rows, const DeviceLimits& limits) {
  const int threads = OneCallThreads(call.kind);
  const int64_t most = int64_t{limits.processors} * kBlocksPerProcessor;
  const int64_t units = std::clamp<int64_t>(Units(call, rows, threads), 1, most);
  const int64_t floats =
      std::min(SharedFloats(call, rows, units, threads), MostFloats(limits));
  return {.launch = {.blocks = static_cast<int>(units),
                     .threads = threads,
                     .shared_bytes = FloatBytes(floats)},
          .shared_floats = floats};
}

StepShape ShapeOf(std::span<const StepCall> calls, int64_t rows,
                  const DeviceLimits& limits) {
  const int64_t most = MostFloats(limits) - kWholeStepCallFloats;
  int64_t shared = 0;
  for (const StepCall& call : calls) {
    shared = std::max(shared,
                      SharedFloats(call, rows, limits.processors, kWholeStepThreads));
  }
  shared = std::min(shared, most);
  // One block per processor gets all that is left.
  const int64_t ahead = (most - shared) / 4 * 4;
  return {.launch = {.blocks = limits.processors,
                     .threads = kWholeStepThreads,
                     .shared_bytes = FloatBytes(kWholeStepCallFloats + ahead + shared)},
          .shared_floats = shared,
          .ahead_floats = ahead};
}

DeviceNeeds NeedsOf(const StepProgram& program) {
  const DeviceInput input(/*rows=*/1, nullptr);
  const Rows prepared;
  DeviceNeeds needs;
  for (const bool whole : {true, false}) {
    const DeviceProgram made =
        MakeDeviceProgram(program, nullptr,
                          {.input = input,
                           .buffers = {},
                           .last = {},
                           .logits = {},
                           .prepared = whole ? nullptr : &prepared});
    for (const auto* calls : {&made.wave, &made.logits, &made.draws}) {
      for (const StepCall& call : *calls) {
        const int threads = whole ? kWholeStepThreads : OneCallThreads(call.kind);
        const int64_t floats =
            LeastSharedFloats(call, threads) + (whole ? kWholeStepCallFloats : 0);
        needs.shared_bytes = std::max(needs.shared_bytes, FloatBytes(floats));
        if (call.kind != StepCallKind::kPrepareRows) continue;
        needs.prepared_floats = std::max(
            needs.prepared_floats, device::PreparedFloats(call.linear.call.weights));
      }
    }
  }
  return needs;
}

}  // namespace mnemon
