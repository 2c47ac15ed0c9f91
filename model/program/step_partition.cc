// SPDX-License-Identifier: MIT
#include "model/program/step_partition.h"

#include <algorithm>

namespace mnemon {
namespace {

// Deals the runs out by rows; false: some worker would have too many.
bool DealRuns(const StepBatch& batch, std::vector<StepPartition::Worker>& workers) {
  const int64_t rows = batch.rows();
  const auto count = static_cast<int64_t>(workers.size());
  const auto runs = static_cast<int64_t>(batch.runs.size());
  int64_t dealt = 0, run = 0, most = 0;
  for (int64_t w = 0; w < count; ++w) {
    const int64_t before = dealt;
    workers[w].runs.begin = run;
    while (run < runs && dealt * count < rows * (w + 1)) {
      dealt += batch.runs[run++].count;
    }
    workers[w].runs.end = run;
    most = std::max(most, dealt - before);
  }
  return most <= MostRowsAlone(rows, count);
}

}  // namespace

void Divide(const StepBatch& batch, const StepProgram& program, int64_t weight_bytes,
            StepPartition& partition) {
  std::vector<StepPartition::Worker>& workers = partition.workers;
  const auto count = static_cast<int64_t>(workers.size());
  const int64_t rows = batch.rows();
  if (count > 1 && rows >= kRowsAlone * count && weight_bytes <= kBytesAlone &&
      DealRuns(batch, workers)) {
    partition.way = StepPartition::Way::kAlone;
    return;
  }
  const Part all{0, static_cast<int64_t>(batch.runs.size())};
  const int64_t slices = program.hidden_slices();
  for (int64_t w = 0; w < count; ++w) {
    workers[w] = {.runs = all,
                  .heads = PartOf(program.heads, w, count),
                  .slices = PartOf(slices, w, count)};
  }
  const int64_t together = program.remember ? all.size() : rows;  // of a wave
  const bool by_head = together <= kRowsByHead && count > 1;
  partition.way =
      by_head ? StepPartition::Way::kByHead : StepPartition::Way::kByOperation;
}

}  // namespace mnemon
