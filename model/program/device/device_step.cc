// SPDX-License-Identifier: MIT
#include "model/program/device/device_step.h"

#include <algorithm>
#include <bit>

#include "model/blocks/attention/kernels/attend_cuda.h"
#include "model/compute/cuda/plan_linear.h"
#include "model/compute/cuda/sample.h"
#include "model/compute/device/device_tables.h"

namespace mnemon {
namespace {

constexpr size_t kBuckets = std::bit_width(static_cast<uint64_t>(kStepRows));

int64_t RowsOf(size_t bucket) { return int64_t{1} << bucket; }

// Rows are aligned to the lines in which a device reads.
int64_t Stride(int64_t width) { return (width + 31) / 32 * 32; }

// Most groups of keys that a row can see.
int64_t MostGroups(const StepProgram& program, const StateSpec& spec) {
  if (!spec.growing()) return 0;
  constexpr int64_t kGroup = kGroupBlocks * kBlockPositions;
  return std::min(program.reaches[0], spec.capacity()) / kGroup + 2;
}

// Bytes of scratch for a group of all heads of the largest attention.
struct GroupBytes {
  int64_t most = 0;

  void operator()(const AttentionOp& op) {
    most = std::max(most, FloatBytes(device::AttendScratchFloats(op.attend, 1)));
  }
  void operator()(const FastWeightsOp&) {}
  void operator()(const FeedForwardOp&) {}
};

int64_t GroupBytesOf(const StepProgram& program) {
  GroupBytes bytes;
  ForSubLayers(program, [&](const auto& op) { bytes(op); });
  return bytes.most;
}

}  // namespace

DeviceStep::DeviceStep(const StepProgram& program, const StateSpec& spec,
                       const PackedWeights& weights, DeviceDriver& driver)
    : driver_(driver),
      weights_(program, weights, driver),
      taken_(driver),
      waves_(program.remember.has_value()),
      group_bytes_(GroupBytesOf(program)),
      groups_(driver) {
  const StepSizes sizes = SizesOf(program);
  const int64_t remembered = program.remember ? program.width : 0;
  buffers_.x = TakeRows(program.levels() * kStepRows, program.width);
  buffers_.level_rows = kStepRows;
  buffers_.projected = TakeRows(kStepRows, sizes.projected);
  buffers_.beta = TakeRows(kStepRows, sizes.gate);
  buffers_.mixed = TakeRows(kStepRows, sizes.mixed);
  buffers_.hidden = TakeRows(kStepRows, sizes.hidden);
  buffers_.memory = TakeRows(kStepRows, remembered);
  buffers_.maps =
      TakeRows(kStepRows, program.remember ? program.remember->maps.outputs : 0);
  last_ = TakeRows(kStepRows, remembered);
  prepared_ = TakeRows(kStepRows, NeedsOf(program).prepared_floats);
  // Contiguous, to be copied at once.
  const int64_t vocab = program.logits.head.outputs;
  logits_ = {taken_.TakeFloats(kStepRows * vocab), vocab};
  input_ =
      taken_.Take(InputOf(kBuckets - 1, nullptr).bytes(DeviceTables::kMostChanges));

  arrived_ = static_cast<uint32_t*>(
      static_cast<void*>(taken_.TakeFloats(kStepRows * sizes.heads)));
  driver.Fill(static_cast<float*>(static_cast<void*>(arrived_)),
              kStepRows * sizes.heads, 0.0f);
  groups_.Reserve(kStepRows * MostGroups(program, spec) * group_bytes_);

  buckets_.resize(kBuckets);
  int blocks = driver.limits().processors;  // blocks that sample
  for (size_t b = 0; b < kBuckets; ++b) {
    buckets_[b].program =
        MakeDeviceProgram(program, &weights_,
                          {.input = InputOf(b, input_),
                           .buffers = buffers_,
                           .last = last_,
                           .logits = logits_,
                           .prepared = Whole(b) ? nullptr : &prepared_});
    const StepCall& sample = buckets_[b].program.draws.front();
    blocks =
        std::max(blocks, ShapeOf(sample, RowsOf(b), driver.limits()).launch.blocks);
  }
  sample_scratch_ = static_cast<int32_t*>(static_cast<void*>(
      taken_.TakeFloats(blocks * device::SampleScratch(static_cast<int32_t>(vocab)))));
  for (size_t b = 0; b < kBuckets; ++b) Prepare(b);
}

void DeviceStep::Prepare(size_t index) {
  Bucket& bucket = buckets_[index];
  const DeviceProgram& program = bucket.program;
  if (!Whole(index)) {
    bucket.wave = MakeGraph(index, program.wave);
    bucket.logits = MakeGraph(index, program.logits);
    bucket.draws = MakeGraph(index, program.draws);
    return;
  }
  std::vector<StepCall> calls = program.wave;
  calls.insert(calls.end(), program.logits.begin(), program.logits.end());
  calls.insert(calls.end(), program.draws.begin(), program.draws.end());
  bucket.whole = ShapeOf(calls, RowsOf(index), driver_.limits());
  for (StepCall& call : calls) {
    if (call.kind != StepCallKind::kLinear) continue;
    call.linear.plan = device::PlanLinear(
        call.linear.call, RowsOf(index), bucket.whole.launch.blocks, kWholeStepThreads,
        bucket.whole.shared_floats, bucket.whole.ahead_floats);
  }
  const auto bytes = static_cast<int64_t>(calls.size() * sizeof(StepCall));
  bucket.calls = static_cast<StepCall*>(taken_.Take(bytes));
  driver_.CopyIn(calls.data(), bucket.calls, bytes);
  // The sources of the copies are freed after this.
  driver_.Wait(driver_.Mark()).IgnoreError();
}

bool DeviceStep::Whole(size_t bucket) const {
  return RowsOf(bucket) <= driver_.limits().whole_step_rows;
}

// A ring may hold more than its rows see.
void DeviceStep::MakeRoom(int64_t groups) {
  groups_.Cover(std::min(groups * group_bytes_, groups_.size()));
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
  launch.ahead_floats = shape.ahead_floats;
  launch.waves = waves_;
  launch.groups = reinterpret_cast<float*>(groups_.begin());
  launch.arrived = arrived_;
  launch.sample_scratch = sample_scratch_;
  return launch;
}

void DeviceStep::LaunchCall(size_t bucket, const StepCall& call) {
  const StepShape shape = ShapeOf(call, RowsOf(bucket), driver_.limits());
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

void DeviceStep::Launch(size_t index, int64_t waves, bool logits, bool draws) {
  const Bucket& bucket = buckets_[index];
  if (bucket.calls != nullptr) {
    StepLaunch launch = LaunchOf(bucket.whole);
    launch.calls = bucket.calls;
    launch.wave_calls = static_cast<int32_t>(bucket.program.wave.size());
    launch.logits_calls = static_cast<int32_t>(bucket.program.logits.size());
    launch.draw_calls = draws ? static_cast<int32_t>(bucket.program.draws.size()) : 0;
    driver_.Launch(StepKernel::kWholeStep, bucket.whole.launch, launch);
    return;
  }
  for (int64_t w = 0; w < waves; ++w) driver_.Launch(*bucket.wave);
  if (logits) driver_.Launch(*bucket.logits);
  if (draws) LaunchDraws(index);
}

void DeviceStep::LaunchDraws(size_t index) {
  const Bucket& bucket = buckets_[index];
  if (bucket.draws != nullptr) return driver_.Launch(*bucket.draws);
  for (const StepCall& call : bucket.program.draws) LaunchCall(index, call);
}

void DeviceStep::LaunchPrepare(size_t bucket) {
  LaunchCall(bucket, buckets_[bucket].program.wave.front());
}

}  // namespace mnemon
