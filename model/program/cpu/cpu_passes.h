// SPDX-License-Identifier: MIT
// The two ways in which a worker of the CPU's team executes a step program (see
// StepPartition), and a variant of the first that fills views of some rows.
#pragma once

#include <cstdint>
#include <span>

#include "base/partition.h"
#include "model/operations/cpu_team.h"
#include "model/program/cpu/cpu_buffers.h"
#include "model/program/step/step_program.h"
#include "model/program/step/step_rows.h"
#include "model/program/step/step_view.h"

namespace mnemon {

// Computes the worker's share of every operation on all `rows`, with Sync calls between
// them; a worker that goes alone computes everything. `logits` [rows.logits_rows, V].
void PassByOperation(const StepProgram& program, const StepRows& rows,
                     CpuBuffers& buffers, CpuWorker& worker, float* logits);

// A row of the first wave and the view to fill from it. `fixed`: the session's fixed
// entries.
struct RowView {
  int64_t row = 0;
  const float* fixed = nullptr;
  const StepView* to = nullptr;
};
// Like PassByOperation, for a worker that shares the rows with others. A view costs as
// much as plain loops over what the row reads, divided among the workers by heads.
void PassWithViews(const StepProgram& program, const StepRows& rows,
                   std::span<const RowView> views, CpuBuffers& buffers,
                   CpuWorker& worker, float* logits);

// Arguments of PassByHead.
struct HeadPass {
  const StepProgram& program;
  const StepRows& rows;
  CpuBuffers& own;     // x and memory: each worker has all of them
  CpuBuffers& shared;  // the rest: each worker has some columns
  CpuParts* parts;     // [2], used alternately
  CpuWorker& alone;
  CpuWorker& together;

  // This worker's share of `count` heads or slices, and that of worker 0.
  Part OwnOf(int64_t count) const {
    return PartOf(count, together.share().index, together.share().count);
  }
  Part FirstOf(int64_t count) const { return PartOf(count, 0, together.share().count); }
};
void PassByHead(const HeadPass& pass, float* logits);

}  // namespace mnemon
