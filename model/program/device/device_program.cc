// SPDX-License-Identifier: MIT
#include "model/program/device/device_program.h"

#include <functional>

#include "base/check.h"
#include "model/compute/cuda/prepared_rows.h"
#include "model/program/step/operation_pass.h"

namespace mnemon {
DeviceWeights::DeviceWeights(const StepProgram& program, const PackedWeights& weights,
                             DeviceDriver& driver)
    : taken_(driver) {
  for (const std::span<const std::byte> part : weights.parts()) Take(part, driver);
  const auto take = [&](const AngleTable& angles) {
    Take(std::as_bytes(angles.coarse()), driver);
    Take(std::as_bytes(angles.fine()), driver);
  };
  if (program.embed.sinusoid) take(*program.embed.sinusoid);
  for (const auto& angles : program.angles) take(angles->table);
}

void DeviceWeights::Take(std::span<const std::byte> host, DeviceDriver& driver) {
  if (host.empty()) return;
  const auto bytes = static_cast<int64_t>(host.size());
  auto* const device = static_cast<std::byte*>(taken_.Take(bytes));
  regions_.push_back({host.data(), bytes, device});
  driver.CopyIn(host.data(), device, bytes);
  // The source may be freed after this. Errors of the device are reported later.
  driver.Wait(driver.Mark()).IgnoreError();
}

const void* DeviceWeights::Find(const void* host) const {
  if (host == nullptr) return nullptr;
  const auto* const at = static_cast<const std::byte*>(host);
  for (const Region& region : regions_) {
    if (std::less_equal<>()(region.host, at) &&
        std::less<>()(at, region.host + region.bytes)) {
      return region.device + (at - region.host);
    }
  }
  MNEMON_CHECK(false);  // not a packed weight
  return nullptr;
}

StepCall& CallRecorder::Add(StepCallKind kind) {
  StepCall& call = calls_.emplace_back();
  call.kind = kind;
  call.meets = false;
  return call;
}

void CallRecorder::Embed(const EmbedCall& call) {
  EmbedStep& step =
      *new (&Add(StepCallKind::kEmbed).embed) EmbedStep{.call = call, .tied = {}};
  step.call.table = Of(call.table);
  step.call.learned = Of(call.learned);
  step.call.sinusoid.coarse = Of(call.sinusoid.coarse);
  step.call.sinusoid.fine = Of(call.sinusoid.fine);
  if (call.tied != nullptr) step.tied = Moved(*call.tied);
}

void CallRecorder::Linear(const LinearCall& call) {
  LinearStep step;
  step.call = call;
  step.call.weights = Moved(call.weights);
  step.call.norm = Moved(call.norm);
  if (call.gate != nullptr) step.gate = Moved(*call.gate);
  const auto add = [&](StepCallKind kind) { new (&Add(kind).linear) LinearStep(step); };
  if (prepared_ == nullptr) return add(StepCallKind::kLinear);
  if (device::NeedsPreparedRows(call)) {
    step.prepared = *prepared_;
    add(StepCallKind::kPrepareRows);
  }
  add(StepCallKind::kTiledLinear);
  if (call.gate == nullptr) return;
  step.call.weights = step.gate;
  step.factor = true;
  add(StepCallKind::kTiledLinear);
}

void CallRecorder::Turn(const TurnCall& call) {
  TurnCall& step = *new (&Add(StepCallKind::kTurn).turn) TurnCall(call);
  step.query_norm = Moved(call.query_norm);
  step.key_norm = Moved(call.key_norm);
  step.angles.coarse = Of(call.angles.coarse);
  step.angles.fine = Of(call.angles.fine);
}

void CallRecorder::Append(const AppendCall& call) {
  AppendStep& step = *new (&Add(StepCallKind::kAppend).append) AppendStep{.call = call};
  step.call.query_bias = Of(call.query_bias);
}

void CallRecorder::Attend(const AttendCall& call) {
  AttendStep step{
      .call = call,
      .append = {},
      .first_group = input_->first_group() + call.reach * input_->group_stride()};
  step.call.relative_key = Of(call.relative_key);
  step.call.relative_bias = Of(call.relative_bias);
  step.call.slopes = Of(call.slopes);
  // A preceding append is the rows' own if each head has its own keys.
  if (call.sharing == 1 && !calls_.empty() &&
      calls_.back().kind == StepCallKind::kAppend) {
    step.append = calls_.back().append.call;
    step.appends = true;
    calls_.back().append.late = true;
    // A whole step has no launch of its own for it.
    if (prepared_ == nullptr) calls_.pop_back();
  }
  new (&Add(StepCallKind::kAttend).attend) AttendStep(step);
}

void CallRecorder::FastWeights(const FastWeightCall& call) {
  new (&Add(StepCallKind::kFastWeights).fast_weights) FastWeightCall(call);
}

void CallRecorder::Mix(const MixCall& call) {
  MixCall& step = *new (&Add(StepCallKind::kMix).mix) MixCall(call);
  step.weights = Of(call.weights);
}

void CallRecorder::Norm(const NormCall& call) {
  NormCall& step = *new (&Add(StepCallKind::kNorm).norm) NormCall(call);
  step.norm = Moved(call.norm);
}

void CallRecorder::Keep(const KeepCall& call) {
  new (&Add(StepCallKind::kKeep).keep) KeepCall(call);
}

void CallRecorder::Sample(const device::SampleCall& call) {
  new (&Add(StepCallKind::kSample).sample) device::SampleCall(call);
}

MatrixView CallRecorder::Moved(MatrixView matrix) const {
  matrix.panels = Of(static_cast<const std::byte*>(matrix.panels));
  matrix.bias = Of(matrix.bias);
  matrix.scales = Of(matrix.scales);
  return matrix;
}

NormView CallRecorder::Moved(NormView norm) const {
  norm.gain = Of(norm.gain);
  norm.bias = Of(norm.bias);
  return norm;
}

DeviceProgram MakeDeviceProgram(const StepProgram& program,
                                const DeviceWeights* weights, const DeviceRows& rows) {
  CallRecorder recorder(weights, &rows.input, rows.prepared);
  recorder.Add(StepCallKind::kPrepare).prepare = {.changes = rows.input.changes(),
                                                  .drawn = rows.input.drawn_tokens(),
                                                  .tokens = rows.input.tokens()};
  recorder.Sync();
  OperationPass pass(program, recorder);
  // Blocks append what other blocks attend to.
  pass.Begin(rows.input.wave(), rows.buffers, /*twice=*/true);
  for (const std::vector<SubLayerOp>& layer : program.layers) {
    pass.BeginLayer();
    for (const SubLayerOp& op : layer) std::visit(pass, op);
  }
  if (program.remember) {
    recorder.Keep({.rows = 0,
                   .width = program.width,
                   .to = rows.input.wanted(),
                   .in = pass.x(),
                   .out = rows.last});
    pass(*program.remember);
    recorder.Add(StepCallKind::kNextWave);
  }
  CallRecorder head(weights, nullptr, rows.prepared);
  head.Linear({.rows = 0,
               .in = program.remember ? rows.last : pass.x(),
               .pick = program.remember ? nullptr : rows.input.wanted(),
               .norm = program.logits.norm,
               .weights = program.logits.head,
               .scale = program.logits.scale,
               .cap = program.logits.cap,
               .out = rows.logits});
  head.Sync();
  DeviceProgram made{.wave = recorder.TakeCalls(), .logits = head.TakeCalls()};
  for (StepCall& call : made.logits) call.linear.of_logits = true;
  CallRecorder sampler(weights);
  device::SampleCall sample;
  sample.rows = rows.input.draws();
  sample.vocab = static_cast<int32_t>(program.logits.head.outputs);
  sample.logits = rows.logits;
  sampler.Sample(sample);
  made.draws = sampler.TakeCalls();
  return made;
}

}  // namespace mnemon
