// SPDX-License-Identifier: MIT
// The two ways in which a worker of the CPU's team goes through a step program, see
// StepPartition, and the first of them with a view of some rows.
#pragma once

#include <cstdint>
#include <span>

#include "base/partition.h"
#include "model/operations/cpu_team.h"
#include "model/program/cpu_buffers.h"
#include "model/program/step_program.h"
#include "model/program/step_rows.h"
#include "model/program/step_view.h"

namespace mnemon {

// The worker's share of every operation on all `rows`, with its Sync in between; with
// one that goes alone, the whole. `logits` [rows.logits_rows, V].
void PassByOperation(const StepProgram& program, const StepRows& rows,
                     CpuBuffers& buffers, CpuWorker& worker, float* logits);

// A row of the first wave, and where its view goes. `fixed`: the session's fixed
// entries.
struct RowView {
  int64_t row = 0;
  const float* fixed = nullptr;
  const StepView* to = nullptr;
};
// As PassByOperation, of a worker that goes with the others. A view takes as long as
// plain loops over what the row reads do, shared out by heads.
void PassWithViews(const StepProgram& program, const StepRows& rows,
                   std::span<const RowView> views, CpuBuffers& buffers,
                   CpuWorker& worker, float* logits);

// What a worker needs to go by head.
struct HeadPass {
  const StepProgram& program;
  const StepRows& rows;
  CpuBuffers& own;     // x and memory: each worker has all of them
  CpuBuffers& shared;  // the rest: each worker has some columns
  CpuParts* parts;     // [2], in turn
  CpuWorker& alone;
  CpuWorker& together;

  // The worker's own of so many heads or slices; those of worker 0.
  Part OwnOf(int64_t count) const {
    return PartOf(count, together.share().index, together.share().count);
  }
  Part FirstOf(int64_t count) const { return PartOf(count, 0, together.share().count); }
};
void PassByHead(const HeadPass& pass, float* logits);

}  // namespace mnemon
