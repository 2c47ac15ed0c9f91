// SPDX-License-Identifier: MIT
#include "model/program/step/step_partition.h"

#include <algorithm>

namespace mnemon {
namespace {

// Assigns the runs to workers by rows: calls to(worker, its runs, their rows).
template <class To>
void DealRuns(const StepBatch& batch, int64_t workers, const To& to) {
  const int64_t rows = batch.rows();
  const auto runs = static_cast<int64_t>(batch.runs.size());
  int64_t dealt = 0, run = 0;
  for (int64_t w = 0; w < workers; ++w) {
    const int64_t before = dealt, first = run;
    while (run < runs && dealt * workers < rows * (w + 1)) {
      dealt += batch.runs[run++].count;
    }
    to(w, Part{first, run}, dealt - before);
  }
}

}  // namespace

int64_t RowsTogether(const StepBatch& batch, const StepProgram& program) {
  return program.remember ? static_cast<int64_t>(batch.runs.size()) : batch.rows();
}

StepPartition::Way OtherWay(const StepBatch& batch, const StepProgram& program,
                            int64_t workers) {
  using Way = StepPartition::Way;
  if (workers == 1) return Way::kByOperation;
  const int64_t rows = batch.rows();
  if (rows > kRowsByHead && rows >= kRowsAlone * workers) {
    int64_t most = 0;
    DealRuns(batch, workers,
             [&](int64_t, Part, int64_t dealt) { most = std::max(most, dealt); });
    if (most <= MostRowsAlone(rows, workers)) return Way::kAlone;
  }
  const bool few = RowsTogether(batch, program) <= kRowsByHead;
  return few && workers <= program.fewest_groups ? Way::kByHead : Way::kByOperation;
}

void Divide(const StepBatch& batch, StepPartition::Way way, StepPartition& partition) {
  std::vector<Part>& runs = partition.runs;
  partition.way = way;
  if (way == StepPartition::Way::kAlone) {
    DealRuns(batch, static_cast<int64_t>(runs.size()),
             [&](int64_t w, Part dealt, int64_t) { runs[w] = dealt; });
    return;
  }
  std::ranges::fill(runs, Part{0, static_cast<int64_t>(batch.runs.size())});
}

}  // namespace mnemon
