// SPDX-License-Identifier: MIT
// Execution of a step program operation by operation: each call on all rows of a wave,
// with a Sync after each call that a later one depends on.
#pragma once

#include "model/program/step/step_calls.h"
#include "model/program/step/step_program.h"

namespace mnemon {

// Worker executes or records the calls; see CpuWorker. All arguments outlive the pass.
template <class Worker>
class OperationPass {
 public:
  OperationPass(const StepProgram& program, Worker& worker)
      : program_(program), k_(worker) {}

  Rows x() const { return at_.Level(level_); }

  // `twice`: the wave has several rows of one session.
  void Begin(const WaveView& wave, const StepBuffers& buffers, bool twice) {
    wave_ = wave;
    at_ = buffers;
    twice_ = twice;
    level_ = 0;
    rises_ = false;
    k_.Embed(CallOf(program_, wave, x()));
    k_.Sync();
  }

  // Begins the sub-layers of the next layer.
  void BeginLayer() { rises_ = program_.remember.has_value(); }

  void operator()(const AttentionOp& op) {
    const Rows before = Input();
    k_.Linear({.rows = wave_.rows,
               .in = before,
               .norm = op.norm,
               .weights = op.project,
               .out = at_.projected});
    k_.Sync();
    if (op.turns) {
      k_.Turn(TurnOf(op, wave_, at_.projected));
      k_.Sync();
    }
    const AttendCall attend = CallOf(op, wave_, at_.projected, at_.mixed);
    if (op.appends) {
      k_.Append(AppendOf(op, wave_, at_.projected));
      // A worker that shares rows as Append does attends to what it appended itself.
      if (twice_ || attend.sharing > 1) k_.Sync();
    }
    k_.Attend(attend);
    k_.Sync();
    End(op.end, op.output, at_.mixed, before, attend.key_ranges);
  }

  void operator()(const FastWeightsOp& op) {
    const bool delta = op.gate.outputs > 0;
    const ConstRows beta = delta ? ConstRows(at_.beta) : ConstRows(nullptr, 0);
    const Rows before = Input();
    k_.Linear({.rows = wave_.rows,
               .in = before,
               .norm = op.norm,
               .weights = op.project,
               .out = at_.projected});
    if (delta) {
      k_.Linear({.rows = wave_.rows,
                 .in = before,
                 .norm = op.norm,
                 .weights = op.gate,
                 .act = Act::kSigmoid,
                 .out = at_.beta});
    }
    k_.Sync();
    k_.FastWeights(CallOf(op, wave_, at_.projected, beta, at_.mixed));
    k_.Sync();
    End(op.end, op.output, at_.mixed, before, nullptr);
  }

  void operator()(const FeedForwardOp& op) {
    const Rows before = Input();
    k_.Linear({.rows = wave_.rows,
               .in = before,
               .norm = op.norm,
               .weights = op.in,
               .act = op.act,
               .gate = op.factor.outputs > 0 ? &op.factor : nullptr,
               .out = at_.hidden});
    k_.Sync();
    End(op.end, op.out, at_.hidden, before, nullptr);
  }

  void operator()(const RememberOp& op) {
    k_.Mix(CallOf(op, program_, wave_.rows, at_, at_.memory));
    k_.Sync();
    k_.Linear(
        {.rows = wave_.rows, .in = at_.memory, .weights = op.maps, .out = at_.maps});
    k_.Sync();
    for (size_t l = 0; l < op.appends.size(); ++l) {
      k_.Append(AppendOf(op, l, wave_, at_.maps));
    }
    k_.Sync();
  }

 private:
  // Rows that a sub-layer reads. Afterwards x() is where it writes: with a memory, the
  // first sub-layer of a layer does not overwrite its input.
  Rows Input() {
    const Rows before = x();
    level_ += rises_;
    rises_ = false;
    return before;
  }

  // Computes x() from the input of a sub-layer's last matrix.
  void End(const SubLayerEndOp& end, const MatrixView& matrix, Rows in, Rows before,
           const KeyRange* key_ranges) {
    LinearCall last{.rows = wave_.rows, .in = in, .weights = matrix};
    const bool behind = end.behind.gain != nullptr;
    if (behind) {
      last.out = at_.projected;
    } else {
      last.residual = before;
      last.scale = end.scale;
      last.key_ranges = key_ranges;
      last.out = x();
    }
    k_.Linear(last);
    k_.Sync();
    if (behind) {
      k_.Norm({.rows = wave_.rows,
               .width = program_.width,
               .in = at_.projected,
               .norm = end.behind,
               .residual = before,
               .scale = end.scale,
               .room = at_.projected,
               .out = x()});
      k_.Sync();
    }
    if (end.after.gain == nullptr) return;
    k_.Norm({.rows = wave_.rows,
             .width = program_.width,
             .in = x(),
             .norm = end.after,
             .out = x()});
    k_.Sync();
  }

  const StepProgram& program_;
  Worker& k_;
  WaveView wave_;
  StepBuffers at_;
  bool twice_ = false;
  int64_t level_ = 0;
  bool rises_ = false;  // with the next sub-layer
};

}  // namespace mnemon
