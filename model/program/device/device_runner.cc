// SPDX-License-Identifier: MIT
#include "model/program/device/device_runner.h"

#include <algorithm>
#include <array>
#include <memory>

#include "base/check.h"
#include "base/error.h"
#include "base/memory/reserve.h"
#include "base/strings.h"
#include "model/compute/device/device_memory.h"
#include "model/program/device/device_carry.h"
#include "model/program/device/device_samplers.h"
#include "model/program/device/device_stagings.h"
#include "model/program/device/device_step.h"
#include "model/program/step/piece_cut.h"
#include "model/program/step/step_rows.h"

namespace mnemon {
namespace {

// Objects made by loading a program, in order.
struct Loaded {
  Loaded(const StepProgram& program, const StateSpec& spec,
         const PackedWeights& weights, DeviceDriver& driver)
      : step(program, spec, weights, driver),
        stagings(driver, step.input()),
        samplers(driver) {}

  DeviceStep step;
  DeviceStagings stagings;
  DeviceSamplers samplers;
};

class DeviceRunner final : public StepRunner {
 public:
  DeviceRunner(const StepProgram& program, const StateSpec& spec,
               const PackedWeights& weights, DeviceDriver& driver)
      : program_(program),
        driver_(driver),
        loaded_(std::make_unique<Loaded>(program, spec, weights, driver)),
        cut_(kStepRows) {
    rows_.Reserve(kStepRows);
  }
  ~DeviceRunner() override { driver_.Wait(driver_.Mark()).IgnoreError(); }

  int most_under_way() const override { return kUnderWay; }
  int64_t rows_at_once() const override { return INT64_MAX; }

  void MakeRoom(int64_t rows, int64_t blocks, StateArena& arena) override {
    for (DeviceRun& run : runs_) ReserveAtLeast(run.tokens, rows);
    if (!arena.spec().growing()) return;
    TablesOf(arena).MakeRoom(arena.slots_seen(), blocks);
    loaded_->step.MakeRoom(std::min<int64_t>(rows, kStepRows) *
                           (blocks / kGroupBlocks + 2));
  }

  void Make(const BlockCopies& copies) override { copies.Make(0, 1); }

  void Submit(const StepBatch& batch, StateArena& arena, float* logits) override {
    MNEMON_CHECK(submitted_ - completed_ < kUnderWay);
    DeviceRun& run = RunOf(submitted_++);
    run.mark = 0;
    run.wrong = 0;
    run.tokens.clear();
    cut_.Begin(batch);
    while (const PieceCut::Piece* piece = cut_.Next()) {
      SubmitPiece(*piece, arena, run, logits);
      logits += static_cast<int64_t>(piece->to_host.size()) * vocab();
    }
  }

  absl::StatusOr<bool> Complete(std::span<int32_t> drawn) override {
    MNEMON_CHECK(completed_ < submitted_);
    DeviceRun& run = RunOf(completed_++);
    const absl::Status status = loaded_->stagings.Wait(run);
    loaded_->samplers.Done(run.mark);
    if (!status.ok() || run.wrong != 0) {
      for (; completed_ < submitted_; ++completed_) {
        loaded_->stagings.Wait(RunOf(completed_)).IgnoreError();
      }
      if (!status.ok()) return status;
      return false;
    }
    MNEMON_CHECK(drawn.size() == run.tokens.size());
    std::ranges::copy(run.tokens, drawn.begin());
    return true;
  }

  bool draws() const override { return true; }
  void BeginDraws(int32_t slot, const SamplingParams& params,
                  std::span<const int32_t> window) override {
    loaded_->samplers.Begin(slot, params, window);
  }
  void EndDraws(int32_t slot) override { loaded_->samplers.End(slot); }

  absl::StatusOr<bool> Import(int64_t position, const TensorViews& carry,
                              StateArena& arena, int32_t slot) override {
    DeviceCarryWriter writer(driver_, loaded_->step, loaded_->stagings,
                             program_.remember.has_value());
    const bool finite = ImportCarry(program_, position, carry, arena, slot, writer);
    const absl::Status status = writer.Finish();
    if (!status.ok()) return status;
    return finite && writer.finite();
  }

 private:
  static constexpr int kUnderWay = 2;

  int64_t vocab() const { return program_.logits.head.outputs; }
  DeviceRun& RunOf(int64_t number) {
    return runs_[static_cast<size_t>(number % kUnderWay)];
  }
  static DeviceTables& TablesOf(StateArena& arena) {
    return static_cast<DeviceMemory&>(arena.memory()).tables();
  }

  void SubmitPiece(const PieceCut::Piece& piece, StateArena& arena, DeviceRun& run,
                   float* logits);
  // Sets rows_; returns the accompanying changes of tables.
  std::span<const TableChange> Fill(const StepBatch& piece, StateArena& arena,
                                    DeviceRun& run);
  void ChangeTables(std::span<const TableChange> changes, DeviceRun& run);
  // Adds draws and drawn tokens to an input.
  void AddDraws(const PieceCut::Piece& piece, const DeviceInput& input);
  // Queues copies of rows of logits; neighbours share one copy.
  void CopyLogits(std::span<const int32_t> rows, float* to);

  const StepProgram& program_;
  DeviceDriver& driver_;
  const std::unique_ptr<Loaded> loaded_;
  std::array<DeviceRun, kUnderWay> runs_;
  int64_t submitted_ = 0, completed_ = 0;
  PieceCut cut_;
  StepRows rows_;
};

void DeviceRunner::ChangeTables(std::span<const TableChange> changes, DeviceRun& run) {
  const size_t bucket = DeviceStep::BucketOf(1);
  DeviceInput input = loaded_->stagings.Begin(bucket, run);
  input.Write(changes);
  loaded_->stagings.Send(input);
  loaded_->step.LaunchPrepare(bucket);
  loaded_->stagings.Receive(/*draws=*/0);
}

std::span<const TableChange> DeviceRunner::Fill(const StepBatch& piece,
                                                StateArena& arena, DeviceRun& run) {
  const Part all{0, static_cast<int64_t>(piece.runs.size())};
  if (!arena.spec().growing()) {
    rows_.Fill(program_, piece, all, arena);
    return {};
  }
  DeviceTables& tables = TablesOf(arena);
  rows_.Fill(program_, piece, all, arena, [&](int32_t slot) {
    return tables.Update(arena, slot, [&](std::span<const TableChange> full) {
      ChangeTables(full, run);
    });
  });
  return tables.TakeChanges();
}

void DeviceRunner::AddDraws(const PieceCut::Piece& piece, const DeviceInput& input) {
  const DeviceSamplers& samplers = loaded_->samplers;
  input.header()->draws = static_cast<int64_t>(piece.draws.size());
  input.header()->drawn_tokens = static_cast<int64_t>(rows_.drawn.size());
  std::ranges::transform(piece.draws, input.draws(),
                         [&](const PieceCut::Piece::Draw& draw) {
                           return device::DrawRow{.sampler = samplers.Of(draw.slot),
                                                  .index = draw.index,
                                                  .logits_row = draw.logits_row};
                         });
  std::ranges::transform(
      rows_.drawn, input.drawn_tokens(), [&](const StepRows::DrawnRow& one) {
        return DrawnToken{.from = &samplers.Of(one.slot)->drawn, .row = one.row};
      });
}

void DeviceRunner::CopyLogits(std::span<const int32_t> rows, float* to) {
  for (size_t begin = 0; begin < rows.size();) {
    size_t end = begin + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    const int64_t floats = static_cast<int64_t>(end - begin) * vocab();
    driver_.CopyOut(loaded_->step.logits() + rows[begin] * vocab(), to,
                    FloatBytes(floats));
    to += floats;
    begin = end;
  }
}

void DeviceRunner::SubmitPiece(const PieceCut::Piece& piece, StateArena& arena,
                               DeviceRun& run, float* logits) {
  const std::span<const TableChange> changes = Fill(piece.batch, arena, run);
  const auto count = static_cast<int64_t>(rows_.tokens.size());
  const size_t bucket = DeviceStep::BucketOf(count);
  DeviceInput input = loaded_->stagings.Begin(bucket, run);
  input.Write(rows_, program_.remember.has_value(), changes);
  AddDraws(piece, input);
  loaded_->stagings.Send(input);
  // The host wants the original logits, which draws change.
  const bool draws = !piece.draws.empty(), later = !piece.to_host.empty();
  loaded_->step.Launch(bucket, static_cast<int64_t>(rows_.waves.size()),
                       rows_.logits_rows > 0, draws && !later);
  CopyLogits(piece.to_host, logits);
  if (draws && later) loaded_->step.LaunchDraws(bucket);
  loaded_->stagings.Receive(static_cast<int64_t>(piece.draws.size()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepRunner>> MakeDeviceRunner(
    const StepProgram& program, const StateSpec& spec, const PackedWeights& weights,
    DeviceDriver& driver) {
  const int64_t least = NeedsOf(program).shared_bytes;
  if (least > driver.limits().shared_bytes) {
    return MakeError(
        absl::StatusCode::kResourceExhausted,
        StrCat("the model does not fit ", driver.limits().name, ": its rows take ",
               least, " bytes of a block's shared memory, which has ",
               driver.limits().shared_bytes),
        {.reason = "MODEL_TOO_WIDE"});
  }
  return std::make_unique<DeviceRunner>(program, spec, weights, driver);
}

}  // namespace mnemon
