// SPDX-License-Identifier: MIT
#include "model/program/cpu_passes.h"

#include "model/program/cpu_walk.h"

namespace mnemon {
namespace {

ConstRows From(Rows rows, int64_t column) { return {rows.data + column, rows.stride}; }

// A head's key from `column` on, its value in the panels behind.
AppendCall AppendAt(const AppendCall& append, const CpuRows& rows,
                    const CpuRows::Wave& wave, Rows from, int64_t column,
                    int64_t head_stride) {
  AppendCall call = append;
  call.rows = wave.rows;
  call.places = rows.places.data() + wave.first;
  call.key = From(from, column);
  call.value = From(from, column + Padded(call.width));
  call.head_stride = head_stride;
  return call;
}

}  // namespace

EmbedCall CallOf(const StepProgram& program, const CpuRows& rows,
                 const CpuRows::Wave& wave, Rows x) {
  EmbedCall call = CallOf(program.embed, program.logits);
  call.rows = wave.rows;
  call.ids = rows.tokens.data() + wave.first;
  call.positions = rows.positions.data() + wave.first;
  call.out = x;
  return call;
}

AppendCall AppendOf(const AttentionOp& op, const CpuRows& rows,
                    const CpuRows::Wave& wave, Rows projected) {
  return AppendAt(op.append, rows, wave, projected, Padded(op.append.width),
                  op.head_stride);
}

AttendCall CallOf(const AttentionOp& op, const CpuRows& rows, const CpuRows::Wave& wave,
                  Rows projected, Rows mixed) {
  AttendCall call = op.attend;
  call.rows = wave.rows;
  call.query = projected;
  call.head_stride = op.head_stride;
  call.out = mixed;
  call.key_ranges = rows.key_ranges.data() + wave.first;
  call.groups = wave.groups;
  return call;
}

FastWeightCall CallOf(const FastWeightsOp& op, const CpuRows& rows, Rows projected,
                      ConstRows beta, Rows mixed) {
  const int64_t padded = Padded(op.call.width);
  FastWeightCall call = op.call;
  call.runs = static_cast<int64_t>(rows.runs.size());
  call.run = rows.runs.data();
  call.query = projected;
  call.key = From(projected, padded);
  call.value = From(projected, 2 * padded);
  call.head_stride = op.head_stride;
  call.beta = beta;
  call.out = mixed;
  return call;
}

MixCall CallOf(const RememberOp& op, const StepProgram& program, int64_t rows,
               ConstRows x, Rows memory) {
  return {.rows = rows,
          .width = program.width,
          .layers = program.levels(),
          .weights = op.mix,
          .in = x,
          .layer_stride = rows * x.stride,
          .out = memory};
}

AppendCall AppendOf(const RememberOp& op, size_t layer, const CpuRows& rows,
                    const CpuRows::Wave& wave, Rows maps) {
  return AppendAt(op.appends[layer], rows, wave, maps,
                  static_cast<int64_t>(layer) * op.pair_stride, op.head_stride);
}

namespace {

class OperationPass {
 public:
  OperationPass(const StepProgram& program, const CpuRows& rows, CpuBuffers& buffers,
                CpuWorker& worker)
      : program_(program), rows_(rows), buffers_(buffers), k_(worker) {}

  Rows x() { return buffers_.Level(level_, wave_->rows); }

  void Begin(const CpuRows::Wave& wave) {
    wave_ = &wave;
    level_ = 0;
    k_.Embed(CallOf(program_, rows_, wave, x()));
    k_.Sync();
  }

  void operator()(const AttentionOp& op) {
    const Rows before = x(), projected = buffers_.projected.rows();
    const Rows mixed = buffers_.mixed.rows();
    if (program_.remember) ++level_;
    k_.Linear({.rows = wave_->rows,
               .in = before,
               .norm = op.norm,
               .weights = op.project,
               .out = projected});
    k_.Sync();
    const AttendCall attend = CallOf(op, rows_, *wave_, projected, mixed);
    if (op.appends) {
      k_.Append(AppendOf(op, rows_, *wave_, projected));
      // A worker that shares rows out as in Append attends to what it appended itself.
      if (rows_.one_session_twice) k_.Sync();
    }
    k_.Attend(attend);
    k_.Sync();
    k_.Linear({.rows = wave_->rows,
               .in = mixed,
               .weights = op.output,
               .residual = before,
               .key_ranges = attend.key_ranges,
               .out = x()});
    k_.Sync();
  }

  void operator()(const FastWeightsOp& op) {
    const Rows projected = buffers_.projected.rows(), mixed = buffers_.mixed.rows();
    const bool delta = op.gate.outputs > 0;
    const ConstRows beta =
        delta ? ConstRows(buffers_.beta.rows()) : ConstRows(nullptr, 0);
    k_.Linear(
        {.rows = wave_->rows, .in = x(), .weights = op.project, .out = projected});
    if (delta) {
      k_.Linear({.rows = wave_->rows,
                 .in = x(),
                 .weights = op.gate,
                 .act = Act::kSigmoid,
                 .out = buffers_.beta.rows()});
    }
    k_.Sync();
    k_.FastWeights(CallOf(op, rows_, projected, beta, mixed));
    k_.Sync();
    k_.Linear({.rows = wave_->rows,
               .in = mixed,
               .weights = op.output,
               .residual = x(),
               .out = x()});
    k_.Sync();
  }

  void operator()(const FeedForwardOp& op) {
    const Rows hidden = buffers_.hidden.rows();
    k_.Linear({.rows = wave_->rows,
               .in = x(),
               .norm = op.norm,
               .weights = op.in,
               .act = op.act,
               .gate = op.factor.outputs > 0 ? &op.factor : nullptr,
               .out = hidden});
    k_.Sync();
    k_.Linear({.rows = wave_->rows,
               .in = hidden,
               .weights = op.out,
               .residual = x(),
               .out = x()});
    k_.Sync();
  }

  void operator()(const RememberOp& op) {
    const Rows memory = buffers_.memory.rows(), maps = buffers_.maps.rows();
    k_.Mix(CallOf(op, program_, wave_->rows, buffers_.Level(0, wave_->rows), memory));
    k_.Sync();
    k_.Linear({.rows = wave_->rows, .in = memory, .weights = op.maps, .out = maps});
    k_.Sync();
    for (size_t l = 0; l < op.appends.size(); ++l) {
      k_.Append(AppendOf(op, l, rows_, *wave_, maps));
    }
    k_.Sync();
  }

 private:
  const StepProgram& program_;
  const CpuRows& rows_;
  CpuBuffers& buffers_;
  CpuWorker& k_;
  const CpuRows::Wave* wave_ = nullptr;
  int64_t level_ = 0;
};

}  // namespace

void PassByOperation(const StepProgram& program, const CpuRows& rows,
                     CpuBuffers& buffers, CpuWorker& worker, float* logits) {
  OperationPass pass(program, rows, buffers, worker);
  Walk(program, rows, buffers.last, worker, pass, logits);
}

}  // namespace mnemon
