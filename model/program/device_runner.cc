// SPDX-License-Identifier: MIT
#include "model/program/device_runner.h"

#include <array>
#include <memory>

#include "base/check.h"
#include "base/error.h"
#include "base/strings.h"
#include "model/device/device_memory.h"
#include "model/program/device_carry.h"
#include "model/program/device_stagings.h"
#include "model/program/device_step.h"
#include "model/program/piece_cut.h"
#include "model/program/step_rows.h"

namespace mnemon {
namespace {

class DeviceRunner final : public StepRunner {
 public:
  DeviceRunner(const StepProgram& program, const StateSpec& spec,
               const PackedWeights& weights, DeviceDriver& driver)
      : program_(program),
        driver_(driver),
        step_(program, spec, weights, driver),
        stagings_(driver, step_.input()),
        cut_(kPieceRows) {
    rows_.Reserve(kPieceRows);
  }
  ~DeviceRunner() override { driver_.Wait(driver_.Mark()).IgnoreError(); }

  int most_under_way() const override { return kUnderWay; }

  void MakeRoom(int64_t /*rows*/, int64_t blocks, StateArena& arena) override {
    if (!arena.spec().growing()) return;
    TablesOf(arena).MakeRoom(arena.slots_seen(), blocks);
  }

  void Make(const BlockCopies& copies) override { copies.Make(0, 1); }

  void Submit(const StepBatch& batch, StateArena& arena, float* logits) override {
    MNEMON_CHECK(submitted_ - completed_ < kUnderWay);
    DeviceRun& run = runs_[static_cast<size_t>(submitted_++ % kUnderWay)];
    run = {};
    cut_.Begin(batch);
    while (const StepBatch* piece = cut_.Next()) {
      SubmitPiece(*piece, arena, run, logits);
      logits += static_cast<int64_t>(piece->wanted.size()) * vocab();
    }
  }

  absl::StatusOr<bool> Complete() override {
    MNEMON_CHECK(completed_ < submitted_);
    DeviceRun& run = runs_[static_cast<size_t>(completed_++ % kUnderWay)];
    const absl::Status status = stagings_.Wait(run);
    if (!status.ok()) return status;
    return run.wrong == 0;
  }

  absl::StatusOr<bool> Import(int64_t position, const TensorViews& carry,
                              StateArena& arena, int32_t slot) override {
    DeviceCarryWriter writer(driver_, step_, stagings_, program_.remember.has_value());
    const bool finite = ImportCarry(program_, position, carry, arena, slot, writer);
    const absl::Status status = writer.Finish();
    if (!status.ok()) return status;
    return finite && writer.finite();
  }

 private:
  static constexpr int kUnderWay = 2;

  int64_t vocab() const { return program_.logits.head.outputs; }
  static DeviceTables& TablesOf(StateArena& arena) {
    return static_cast<DeviceMemory&>(arena.memory()).tables();
  }

  void SubmitPiece(const StepBatch& piece, StateArena& arena, DeviceRun& run,
                   float* logits);
  // Sets rows_; returns the changes of tables that come with them.
  std::span<const TableChange> Fill(const StepBatch& piece, StateArena& arena,
                                    DeviceRun& run);
  void ChangeTables(std::span<const TableChange> changes, DeviceRun& run);

  const StepProgram& program_;
  DeviceDriver& driver_;
  DeviceStep step_;
  DeviceStagings stagings_;
  std::array<DeviceRun, kUnderWay> runs_;
  int64_t submitted_ = 0, completed_ = 0;
  PieceCut cut_;
  StepRows rows_;
};

void DeviceRunner::ChangeTables(std::span<const TableChange> changes, DeviceRun& run) {
  const size_t bucket = DeviceStep::BucketOf(1);
  DeviceInput input = stagings_.Begin(bucket, run);
  input.Write(changes);
  stagings_.Send(input);
  step_.LaunchTables(bucket);
  stagings_.Receive();
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

void DeviceRunner::SubmitPiece(const StepBatch& piece, StateArena& arena,
                               DeviceRun& run, float* logits) {
  const std::span<const TableChange> changes = Fill(piece, arena, run);
  const auto count = static_cast<int64_t>(rows_.tokens.size());
  const size_t bucket = DeviceStep::BucketOf(count);
  DeviceInput input = stagings_.Begin(bucket, run);
  input.Write(rows_, program_.remember.has_value(), changes);
  stagings_.Send(input);
  step_.Launch(bucket, rows_);
  if (rows_.logits_rows > 0) {
    driver_.CopyOut(step_.logits(), logits, FloatBytes(rows_.logits_rows * vocab()));
  }
  stagings_.Receive();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepRunner>> MakeDeviceRunner(
    const StepProgram& program, const StateSpec& spec, const PackedWeights& weights,
    DeviceDriver& driver) {
  const int64_t least = LeastSharedBytes(program);
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
