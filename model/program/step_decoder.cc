// SPDX-License-Identifier: MIT
#include "model/program/step_decoder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/memory/reserve.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "model/compute/device/device_memory.h"
#include "model/operations/step_numerics.h"
#include "model/program/cpu/cpu_runner.h"
#include "model/program/device/device_runner.h"
#include "model/program/step/step_batch.h"
#include "model/program/step/step_introspection.h"

namespace mnemon {
namespace {

int64_t Tokens(const Segment& segment) {
  return static_cast<int64_t>(segment.tokens.size());
}

// Frees what was reserved and not computed.
void GiveBack(std::span<const Segment> segments, StateArena& arena) {
  for (const Segment& segment : segments) {
    arena.Truncate(segment.slot, segment.position);
  }
}

class StepDecoder final : public Decoder {
 public:
  StepDecoder(const ModelDescription& model, const TensorViews& views,
              const StepOptions& options)
      : model_(model),
        carry_spec_(CarryOf(model).spec),
        state_(StateOf(model)),
        numerics_id_(StepNumericsId(options)),
        operations_(*options.operations),
        pool_(*options.pool),
        device_(options.device),
        weights_(views, options),
        program_(MakeStepProgram(model_, state_, weights_)),
        introspection_(program_) {
    weights_.Pack();
  }

  // Makes the runner. REQUIRED before any other call.
  absl::Status Load() {
    if (device_ == nullptr) {
      runner_ = MakeCpuRunner(program_, operations_, pool_);
      return absl::OkStatus();
    }
    MNEMON_ASSIGN_OR_RETURN(
        runner_, MakeDeviceRunner(program_, state_.spec, weights_.packed(), *device_));
    return absl::OkStatus();
  }

  const ModelDescription& model() const override { return model_; }
  const StateSpec& spec() const override { return state_.spec; }
  const std::string& numerics_id() const override { return numerics_id_; }
  int64_t weight_bytes() const override { return weights_.packed().bytes(); }

  int most_under_way() const override { return runner_->most_under_way(); }
  bool draws() const override { return runner_->draws(); }
  IntrospectionFields introspection() const override {
    return device_ == nullptr ? introspection_.fields() : IntrospectionFields{};
  }
  std::unique_ptr<StateMemory> MakeStateMemory() override {
    if (device_ == nullptr) return nullptr;
    return std::make_unique<DeviceMemory>(*device_, state_.spec);
  }

  absl::Status Submit(std::span<const Segment> segments, StateArena& arena,
                      float* logits) override;
  absl::Status Complete(std::span<int32_t> drawn) override;
  absl::Status BeginDraws(int32_t slot, const SamplingParams& params,
                          std::span<const int32_t> window) override;
  void EndDraws(int32_t slot) override { runner_->EndDraws(slot); }
  absl::Status Restart() override;
  absl::Status Import(int64_t position, const TensorViews& carry, StateArena& arena,
                      int32_t slot) override;

 private:
  // Whether Submit computes the batch before it returns.
  bool at_once() const { return runner_->most_under_way() == 1; }
  // The reason why memory for a call is missing.
  absl::Status NoMemory(absl::Status status) const {
    return device_ != nullptr && device_->lost() ? DeviceLost() : status;
  }
  std::span<const Segment> Group(std::span<const Segment> segments) const;
  // Appends a segment to the batch. Does not allocate if there is room.
  void Add(const Segment& segment);
  // Reserves the segments' rows in the arena.
  absl::Status Reserve(std::span<const Segment> segments, StateArena& arena);
  void MakeRoom(std::span<const Segment> segments, StateArena& arena);

  const ModelDescription model_;
  const StateSpec carry_spec_;
  const DescribedState state_;
  const std::string numerics_id_;
  const CpuOperations& operations_;
  ThreadPool& pool_;
  DeviceDriver* const device_;  // null: the CPU
  StepWeights weights_;
  const StepProgram program_;
  StepIntrospection introspection_;
  std::span<const StepView> views_;  // of segments that are not in a batch yet
  std::unique_ptr<StepRunner> runner_;
  StepBatch batch_;
  BlockCopies copies_;  // empty between steps
};

// The first segments, which are submitted together.
std::span<const Segment> StepDecoder::Group(std::span<const Segment> segments) const {
  size_t end = 0;
  for (int64_t rows = 0; end < segments.size() && rows < runner_->rows_at_once();
       ++end) {
    rows += Tokens(segments[end]);
  }
  return segments.first(end);
}

void StepDecoder::Add(const Segment& segment) {
  const int64_t first = batch_.rows(), count = Tokens(segment);
  if (segment.introspection != nullptr) {
    batch_.views.push_back(views_.front());
    batch_.views.back().run = static_cast<int64_t>(batch_.runs.size());
    views_ = views_.subspan(1);
  }
  batch_.runs.push_back({.slot = segment.slot,
                         .first = first,
                         .count = count,
                         .position = segment.position,
                         .draws = segment.draw});
  batch_.tokens.insert(batch_.tokens.end(), segment.tokens.begin(),
                       segment.tokens.end());
  if (segment.logits == LogitsMode::kNone) return;
  const int64_t begin = segment.logits == LogitsMode::kAll ? first : first + count - 1;
  for (int64_t row = begin; row < first + count; ++row) {
    batch_.wanted.push_back(static_cast<int32_t>(row));
  }
}

absl::Status StepDecoder::Submit(std::span<const Segment> segments, StateArena& arena,
                                 float* logits) {
  if (device_ != nullptr && device_->lost()) return DeviceLost();
  MNEMON_RETURN_IF_ERROR(
      CheckSegments(segments, model_.vocab, arena, draws(), introspection()));
  absl::Status status = Reserve(segments, arena);
  // Memory can run out only before the first group is computed: room is made first.
  if (status.ok()) {
    status = CatchOutOfMemory({}, [&] {
      MakeRoom(segments, arena);
      return absl::OkStatus();
    });
  }
  if (!status.ok()) {
    GiveBack(segments, arena);
    return NoMemory(status);
  }
  for (std::span<const Segment> rest = segments; !rest.empty();) {
    const std::span<const Segment> group = Group(rest);
    rest = rest.subspan(group.size());
    batch_.runs.clear();
    batch_.tokens.clear();
    batch_.wanted.clear();
    batch_.views.clear();
    for (const Segment& segment : group) Add(segment);
    runner_->Submit(batch_, arena, logits);
    if (!at_once()) break;  // all are one group
    const absl::StatusOr<bool> finite = runner_->Complete({});
    if (!finite.ok() || !*finite) {
      GiveBack(segments, arena);
      return finite.ok() ? NonFiniteState() : finite.status();
    }
    logits += static_cast<int64_t>(batch_.wanted.size()) * model_.vocab;
  }
  for (const Segment& segment : segments) arena.Advance(segment.slot, Tokens(segment));
  return absl::OkStatus();
}

absl::Status StepDecoder::Complete(std::span<int32_t> drawn) {
  if (at_once()) return absl::OkStatus();
  const absl::StatusOr<bool> finite = runner_->Complete(drawn);
  if (!finite.ok()) return finite.status();
  return *finite ? absl::OkStatus() : NonFiniteState();
}

absl::Status StepDecoder::BeginDraws(int32_t slot, const SamplingParams& params,
                                     std::span<const int32_t> window) {
  const absl::Status status = CatchOutOfMemory({}, [&] {
    runner_->BeginDraws(slot, params, window);
    return absl::OkStatus();
  });
  return status.ok() ? status : NoMemory(status);
}

absl::Status StepDecoder::Restart() {
  if (device_ == nullptr) return absl::OkStatus();
  runner_ = nullptr;
  MNEMON_RETURN_IF_ERROR(device_->Restart());
  return CatchOutOfMemory("the weights of this model", [this] { return Load(); });
}

absl::Status StepDecoder::Reserve(std::span<const Segment> segments,
                                  StateArena& arena) {
  absl::Status status;
  for (size_t i = 0; i < segments.size() && status.ok(); ++i) {
    status = arena.Reserve(segments[i].slot, Tokens(segments[i]), copies_);
  }
  if (!copies_.empty()) runner_->Make(copies_);
  arena.Finish(copies_);
  return status;
}

void StepDecoder::MakeRoom(std::span<const Segment> segments, StateArena& arena) {
  int64_t most_rows = 0, most_blocks = 0;
  for (std::span<const Segment> rest = segments; !rest.empty();) {
    const std::span<const Segment> group = Group(rest);
    rest = rest.subspan(group.size());
    int64_t rows = 0;
    for (const Segment& segment : group) {
      rows += Tokens(segment);
      if (!state_.spec.growing()) continue;
      const int64_t end = segment.position + Tokens(segment);
      most_blocks = std::max(
          most_blocks, (end - arena.first_held(segment.slot)) / kBlockPositions + 2);
    }
    most_rows = std::max(most_rows, rows);
  }
  ReserveAtLeast(batch_.runs, most_rows);
  ReserveAtLeast(batch_.tokens, most_rows);
  ReserveAtLeast(batch_.wanted, most_rows);
  views_ = introspection_.MakeViews(segments);
  ReserveAtLeast(batch_.views, views_.size());
  runner_->MakeRoom(most_rows, most_blocks, arena);
}

absl::Status StepDecoder::Import(int64_t position, const TensorViews& carry,
                                 StateArena& arena, int32_t slot) {
  MNEMON_RETURN_IF_ERROR(BeginImport(position, carry, carry_spec_, arena, slot));
  const absl::Status status = CatchOutOfMemory({}, [&] {
    if (position == 0) return absl::OkStatus();
    const absl::StatusOr<bool> finite = runner_->Import(position, carry, arena, slot);
    if (!finite.ok()) return finite.status();
    return *finite ? absl::OkStatus() : NonFiniteState();
  });
  if (!status.ok()) {
    arena.Reset(slot);
    return status;
  }
  arena.Advance(slot, position - arena.length(slot));
  arena.SetFloor(slot, position);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Decoder>> MakeStepDecoder(const ModelDescription& model,
                                                         const TensorViews& views,
                                                         const StepOptions& options) {
  auto decoder = std::make_unique<StepDecoder>(model, views, options);
  MNEMON_RETURN_IF_ERROR(decoder->Load());
  return decoder;
}

}  // namespace mnemon
