// SPDX-License-Identifier: MIT
#include "model/program/cpu/cpu_runner.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/memory/reserve.h"
#include "model/operations/cpu_team.h"
#include "model/program/cpu/cpu_buffers.h"
#include "model/program/cpu/cpu_carry.h"
#include "model/program/cpu/cpu_passes.h"
#include "model/program/step/step_partition.h"
#include "model/program/step/step_rows.h"
#include "model/program/step/way_tuner.h"

namespace mnemon {
namespace {

// Copies of more bytes are divided among the workers, which costs a few microseconds.
constexpr int64_t kCopyAlone = int64_t{64} << 10;

// A batch with this many rows takes no further run, so it has less than kMaxChunk more.
constexpr int64_t kRowsAtOnce = 256;

// For attention: scratch starts with room for this many groups and then doubles, so
// that a new group does not allocate.
constexpr uint64_t kLeastGroups = 16;

// Maximum of ScratchFloats over the calls of a program, except Linear and Parts.
struct Scratch {
  int64_t groups;
  int64_t floats = 0;

  void operator()(const AttentionOp& op) {
    AttendCall call = op.attend;
    call.groups = groups;
    floats = std::max(floats, ScratchFloats(call));
  }
  void operator()(const FastWeightsOp& op) {
    floats = std::max(floats, ScratchFloats(op.call));
  }
  void operator()(const FeedForwardOp&) {}
};

class CpuRunner final : public StepRunner {
 public:
  CpuRunner(const StepProgram& program, const CpuOperations& operations,
            ThreadPool& pool)
      : program_(program),
        sizes_(SizesOf(program)),
        team_(operations, pool),
        workers_(team_.size()) {
    partition_.runs.resize(workers_.size());
    if (workers_.size() == 1) return;
    for (int i = 0; i < 2; ++i) parts_.emplace_back(sizes_.slices, program.width);
  }

  int most_under_way() const override { return 1; }
  int64_t rows_at_once() const override { return kRowsAtOnce; }

  void MakeRoom(int64_t rows, int64_t blocks, StateArena&) override {
    ReserveAtLeast(row_views_, rows);
    const auto count = static_cast<int64_t>(workers_.size());
    for (int64_t w = 0; w < count; ++w) {
      // In a batch computed by all together, worker 0 holds the shared buffers.
      const int64_t alone = std::max(MostRowsAlone(rows, count), kRowsByHead);
      const int64_t most = w == 0 ? rows : std::min(rows, alone);
      workers_[w].rows.Reserve(most);
      workers_[w].buffers.MakeRoom(program_, most);
    }
    const uint64_t groups =
        std::bit_ceil(static_cast<uint64_t>(blocks) / kGroupBlocks + 2);
    Scratch scratch{.groups = static_cast<int64_t>(std::max(kLeastGroups, groups))};
    ForSubLayers(program_, [&](const auto& op) { scratch(op); });
    const int64_t inputs = std::max({program_.width, sizes_.mixed, sizes_.hidden});
    team_.Reserve(std::max(LinearScratch(rows, inputs), scratch.floats));
  }

  void Make(const BlockCopies& copies) override {
    if (copies.bytes() <= kCopyAlone) return copies.Make(0, 1);
    team_.RunAlone([&](CpuWorker&, int worker) { copies.Make(worker, team_.size()); });
  }

  // Computes the whole batch.
  void Submit(const StepBatch& batch, StateArena& arena, float* logits) override {
    using Way = StepPartition::Way;
    if (!batch.views.empty()) return ComputeWithViews(batch, arena, logits);
    const Way other = OtherWay(batch, program_, team_.size());
    const Way way = tuner_.Begin(
        other, other == Way::kAlone ? batch.rows() : RowsTogether(batch, program_));
    Divide(batch, way, partition_);
    Compute(batch, arena, logits);
    tuner_.End(batch.rows());
  }
  absl::StatusOr<bool> Complete(std::span<int32_t> /*drawn*/) override {
    return team_.TakeFinite();
  }

  absl::StatusOr<bool> Import(int64_t position, const TensorViews& carry,
                              StateArena& arena, int32_t slot) override {
    team_.TakeFinite();  // left by an import that failed halfway
    CpuCarryWriter writer(team_);
    const bool finite = ImportCarry(program_, position, carry, arena, slot, writer);
    return team_.TakeFinite() && finite;
  }

 private:
  struct Worker {
    StepRows rows;
    CpuBuffers buffers;
    float* logits = nullptr;
  };

  void Compute(const StepBatch& batch, StateArena& arena, float* logits) {
    if (partition_.way == StepPartition::Way::kAlone) {
      for (size_t w = 0; w < workers_.size(); ++w) {
        Worker& worker = workers_[w];
        worker.rows.Fill(program_, batch, partition_.runs[w], arena);
        worker.logits = logits;
        logits += worker.rows.logits_rows * program_.logits.head.outputs;
      }
      team_.RunAlone([this](CpuWorker& k, int index) {
        Worker& worker = workers_[index];
        PassByOperation(program_, worker.rows, worker.buffers, k, worker.logits);
      });
      return;
    }
    Worker& all = workers_[0];
    all.rows.Fill(program_, batch, partition_.runs[0], arena);
    if (partition_.way == StepPartition::Way::kByOperation) {
      team_.Run([&](CpuWorker& k) {
        PassByOperation(program_, all.rows, all.buffers, k, logits);
      });
      return;
    }
    team_.RunBoth([&](CpuWorker& together, CpuWorker& alone, int index) {
      PassByHead({.program = program_,
                  .rows = all.rows,
                  .own = workers_[index].buffers,
                  .shared = all.buffers,
                  .parts = parts_.data(),
                  .alone = alone,
                  .together = together},
                 logits);
    });
  }

  // By operation, and without the tuner, which is for steps that only compute.
  void ComputeWithViews(const StepBatch& batch, StateArena& arena, float* logits) {
    Divide(batch, StepPartition::Way::kByOperation, partition_);
    Worker& all = workers_[0];
    all.rows.Fill(program_, batch, partition_.runs[0], arena);
    const bool fixed = arena.spec().fixed_elements() > 0;
    row_views_.clear();
    for (const StepView& view : batch.views) {
      const StepBatch::Run& run = batch.runs[static_cast<size_t>(view.run)];
      // With several waves, the first has one row of each run.
      row_views_.push_back({.row = all.rows.waves.size() > 1 ? view.run : run.first,
                            .fixed = fixed ? arena.Fixed(run.slot, 0) : nullptr,
                            .to = &view});
    }
    team_.Run([&](CpuWorker& k) {
      PassWithViews(program_, all.rows, row_views_, all.buffers, k, logits);
    });
  }

  const StepProgram& program_;
  const StepSizes sizes_;
  CpuTeam team_;
  std::vector<Worker> workers_;
  std::vector<CpuParts> parts_;     // see HeadPass; one worker needs none
  std::vector<RowView> row_views_;  // for a batch with views
  StepPartition partition_;
  WayTuner tuner_;
};

}  // namespace

std::unique_ptr<StepRunner> MakeCpuRunner(const StepProgram& program,
                                          const CpuOperations& operations,
                                          ThreadPool& pool) {
  return std::make_unique<CpuRunner>(program, operations, pool);
}

}  // namespace mnemon
