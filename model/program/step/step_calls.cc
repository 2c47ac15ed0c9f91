// SPDX-License-Identifier: MIT
#include "model/program/step/step_calls.h"

namespace mnemon {
namespace {

ConstRows From(Rows rows, int64_t column) { return {rows.data + column, rows.stride}; }

// A head's key from `column` on, its value in the panels after it.
AppendCall AppendAt(const AppendCall& append, const WaveView& wave, Rows from,
                    int64_t column, int64_t head_stride) {
  AppendCall call = append;
  call.rows = wave.rows;
  call.places = wave.places;
  call.key = From(from, column);
  call.value = From(from, column + Padded(call.width));
  call.head_stride = head_stride;
  return call;
}

}  // namespace

EmbedCall CallOf(const StepProgram& program, const WaveView& wave, Rows x) {
  EmbedCall call = CallOf(program.embed, program.logits);
  call.rows = wave.rows;
  call.ids = wave.tokens;
  call.positions = wave.positions;
  call.out = x;
  return call;
}

TurnCall TurnOf(const AttentionOp& op, const WaveView& wave, Rows projected) {
  TurnCall call = op.turn;
  call.rows = wave.rows;
  call.positions = wave.positions;
  call.heads = projected;
  return call;
}

AppendCall AppendOf(const AttentionOp& op, const WaveView& wave, Rows projected) {
  return AppendAt(op.append, wave, projected, op.key_column(), op.group_stride);
}

AttendCall CallOf(const AttentionOp& op, const WaveView& wave, Rows projected,
                  Rows mixed) {
  AttendCall call = op.attend;
  call.rows = wave.rows;
  call.query = projected;
  call.group_stride = op.group_stride;
  call.out = mixed;
  call.key_ranges = wave.key_ranges[static_cast<size_t>(call.reach)];
  call.groups = wave.groups;
  return call;
}

FastWeightCall CallOf(const FastWeightsOp& op, const WaveView& wave, Rows projected,
                      ConstRows beta, Rows mixed) {
  const int64_t padded = Padded(op.call.width);
  FastWeightCall call = op.call;
  call.runs = wave.runs;
  call.run = wave.run;
  call.query = projected;
  call.key = From(projected, padded);
  call.value = From(projected, 2 * padded);
  call.head_stride = op.head_stride;
  call.beta = beta;
  call.out = mixed;
  return call;
}

MixCall CallOf(const RememberOp& op, const StepProgram& program, int64_t rows,
               const StepBuffers& buffers, Rows memory) {
  return {.rows = rows,
          .width = program.width,
          .layers = program.levels(),
          .weights = op.mix,
          .in = buffers.x,
          .layer_stride = buffers.level_rows * buffers.x.stride,
          .out = memory};
}

AppendCall AppendOf(const RememberOp& op, size_t layer, const WaveView& wave,
                    Rows maps) {
  return AppendAt(op.appends[layer], wave, maps,
                  static_cast<int64_t>(layer) * op.pair_stride, op.head_stride);
}

}  // namespace mnemon
