// SPDX-License-Identifier: MIT
#include "model/program/device/device_carry.h"

#include <algorithm>
#include <vector>

namespace mnemon {
namespace {

// Calls that turn rows of a carry in `given` into state, by way of `made`.
std::vector<StepCall> CallsOf(const CarryRows& rows, const DeviceWeights& weights,
                              const Place* places, Rows given, Rows made,
                              const Rows& prepared) {
  CallRecorder recorder(&weights, nullptr, &prepared);
  if (rows.matrix.outputs > 0) {
    recorder.Linear(
        {.in = given, .norm = rows.norm, .weights = rows.matrix, .out = made});
  }
  for (const CarryRows::To& to : rows.to) {
    AppendCall call = to.append;
    call.places = places;
    call.key = {made.data + to.key, made.stride};
    call.value = {made.data + to.value, made.stride};
    call.head_stride = to.head_stride;
    recorder.Append(call);
  }
  return recorder.TakeCalls();
}

}  // namespace

void DeviceCarryWriter::Append(const CarryRows& rows) {
  const StepBuffers& buffers = step_.buffers();
  const Rows made = remembers_ ? buffers.maps : buffers.projected;
  const Rows given = rows.matrix.outputs > 0 ? buffers.x : made;
  const auto count = static_cast<int64_t>(rows.places.size());
  std::vector<float> spread;
  StepRows piece;
  for (int64_t first = 0; first < count; first += kStepRows) {
    const int64_t some = std::min<int64_t>(kStepRows, count - first);
    spread.assign(static_cast<size_t>(some * given.stride), 0.0f);
    for (int64_t r = 0; r < some; ++r) {
      std::copy_n(rows.rows + (first + r) * rows.width, rows.width,
                  spread.data() + r * given.stride);
    }
    piece.waves.assign(1, {.first = 0, .rows = some});
    const auto places = rows.places.begin() + first;
    piece.places.assign(places, places + some);

    driver_.CopyIn(spread.data(), given.data, FloatBytes(some * given.stride));
    const size_t bucket = DeviceStep::BucketOf(some);
    DeviceInput input = stagings_.Begin(bucket, run_);
    input.Write(piece, /*remember=*/false, {});
    stagings_.Send(input);
    const DeviceInput there = DeviceStep::InputOf(bucket, step_.input());
    for (const StepCall& call : CallsOf(rows, step_.weights(), there.wave().places,
                                        given, made, step_.prepared())) {
      step_.LaunchCall(bucket, call);
    }
    stagings_.Receive(/*draws=*/0);
    Finish().IgnoreError();  // the sources are free again; errors are reported later
  }
}

void DeviceCarryWriter::Write(std::span<const float> from, float* to) {
  driver_.CopyIn(from.data(), to, FloatBytes(static_cast<int64_t>(from.size())));
  run_.mark = driver_.Mark();
  Finish().IgnoreError();  // errors are reported later
}

absl::Status DeviceCarryWriter::Finish() { return stagings_.Wait(run_); }

}  // namespace mnemon
