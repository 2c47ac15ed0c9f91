// SPDX-License-Identifier: MIT
#include "model/program/device_step.h"

#include <algorithm>
#include <bit>

#include "model/device/device_tables.h"

namespace mnemon {
namespace {

constexpr size_t kBuckets = std::bit_width(static_cast<uint64_t>(kPieceRows));

int64_t RowsOf(size_t bucket) { return int64_t{1} << bucket; }

// Rows begin where a device reads them in whole lines.
int64_t Stride(int64_t width) { return (width + 31) / 32 * 32; }

// Groups of keys that a row can see.
int64_t MostGroups(const StepProgram& program, const StateSpec& spec) {
  if (!spec.growing()) return 0;
  constexpr int64_t kGroup = kGroupBlocks * kBlockPositions;
  return std::min(program.reach, spec.capacity()) / kGroup + 2;
}

}  // namespace

DeviceStep::DeviceStep(const StepProgram& program, const StateSpec& spec,
                       const PackedWeights& weights, DeviceDriver& driver)
    : program_(program),
      driver_(driver),
      groups_(MostGroups(program, spec)),
      weights_(program, weights, driver),
      taken_(driver) {
  const StepWidths widths = WidthsOf(program);
  const int64_t remembered = program.remember ? program.width : 0;
  buffers_.x = TakeRows(program.levels() * kPieceRows, program.width);
  buffers_.level_rows = kPieceRows;
  buffers_.projected = TakeRows(kPieceRows, widths.projected);
  buffers_.beta = TakeRows(kPieceRows, widths.gate);
  buffers_.mixed = TakeRows(kPieceRows, program.heads * program.head_width);
  buffers_.hidden = TakeRows(kPieceRows, program.hidden);
  buffers_.memory = TakeRows(kPieceRows, remembered);
  buffers_.maps =
      TakeRows(kPieceRows, program.remember ? program.remember->maps.outputs : 0);
  last_ = TakeRows(kPieceRows, remembered);
  // Side by side, to be copied at once.
  const int64_t vocab = program.logits.head.outputs;
  logits_ = {taken_.TakeFloats(kPieceRows * vocab), vocab};
  input_ =
      taken_.Take(InputOf(kBuckets - 1, nullptr).bytes(DeviceTables::kMostChanges));

  const DeviceLimits& limits = driver.limits();
  int64_t scratch = 0;
  const auto need = [&scratch](const StepShape& shape) {
    scratch = std::max(scratch, shape.launch.blocks * shape.scratch_floats);
  };
  buckets_.resize(kBuckets);
  for (size_t b = 0; b < kBuckets; ++b) {
    Bucket& bucket = buckets_[b];
    const DeviceInput input = InputOf(b, input_);
    bucket.program = MakeDeviceProgram(
        program, &weights_,
        {.input = input, .buffers = buffers_, .last = last_, .logits = logits_});
    for (const StepCall& call : bucket.program.wave) {
      need(ShapeOf(call, RowsOf(b), groups_, limits));
    }
    if (RowsOf(b) > limits.whole_step_rows) continue;
    std::vector<StepCall> calls = bucket.program.wave;
    calls.insert(calls.end(), bucket.program.logits.begin(),
                 bucket.program.logits.end());
    bucket.whole = ShapeOf(calls, RowsOf(b), groups_, limits);
    need(bucket.whole);
    const auto bytes = static_cast<int64_t>(calls.size() * sizeof(StepCall));
    bucket.calls = static_cast<StepCall*>(taken_.Take(bytes));
    driver.CopyIn(calls.data(), bucket.calls, bytes);
    // What is copied in is gone behind this.
    driver.Wait(driver.Mark()).IgnoreError();
  }
  scratch_ = taken_.TakeFloats(scratch);
  for (size_t b = 0; b < kBuckets; ++b) {
    Bucket& bucket = buckets_[b];
    bucket.wave = MakeGraph(b, bucket.program.wave);
    bucket.logits = MakeGraph(b, bucket.program.logits);
  }
}

size_t DeviceStep::BucketOf(int64_t rows) {
  return std::bit_width(static_cast<uint64_t>(std::max<int64_t>(rows, 1) - 1));
}

DeviceInput DeviceStep::InputOf(size_t bucket, void* memory) {
  return {RowsOf(bucket), memory};
}

Rows DeviceStep::TakeRows(int64_t rows, int64_t width) {
  if (width == 0) return {};
  return {taken_.TakeFloats(rows * Stride(width)), Stride(width)};
}

StepLaunch DeviceStep::LaunchOf(const StepShape& shape) const {
  StepLaunch launch;
  launch.header = static_cast<StepHeader*>(input_);
  launch.shared_floats = shape.shared_floats;
  launch.scratch = scratch_;
  launch.scratch_floats = shape.scratch_floats;
  return launch;
}

void DeviceStep::LaunchCall(size_t bucket, const StepCall& call) {
  const StepShape shape = ShapeOf(call, RowsOf(bucket), groups_, driver_.limits());
  StepLaunch launch = LaunchOf(shape);
  launch.call = call;
  driver_.Launch(StepKernel::kOneCall, shape.launch, launch);
}

std::unique_ptr<DeviceGraph> DeviceStep::MakeGraph(size_t bucket,
                                                   std::span<const StepCall> calls) {
  driver_.BeginGraph();
  for (const StepCall& call : calls) LaunchCall(bucket, call);
  return driver_.EndGraph();
}

void DeviceStep::Launch(size_t index, const StepRows& rows) {
  const Bucket& bucket = buckets_[index];
  if (bucket.calls != nullptr) {
    StepLaunch launch = LaunchOf(bucket.whole);
    launch.calls = bucket.calls;
    launch.wave_calls = static_cast<int32_t>(bucket.program.wave.size());
    launch.logits_calls = static_cast<int32_t>(bucket.program.logits.size());
    driver_.Launch(StepKernel::kWholeStep, bucket.whole.launch, launch);
    return;
  }
  for (size_t w = 0; w < rows.waves.size(); ++w) driver_.Launch(*bucket.wave);
  if (rows.logits_rows > 0) driver_.Launch(*bucket.logits);
}

void DeviceStep::LaunchTables(size_t bucket) {
  LaunchCall(bucket, buckets_[bucket].program.wave.front());
}

}  // namespace mnemon
