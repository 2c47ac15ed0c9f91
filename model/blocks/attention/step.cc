// SPDX-License-Identifier: MIT
#include "model/blocks/attention/step.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/blocks/attention/alibi.h"
#include "model/blocks/attention/relative_table.h"

namespace mnemon {

AppendCall MakeAppend(const Attention& a, const std::string& base,
                      const StateSpec& spec, const AttentionEntries& entries,
                      StepWeights& weights) {
  AppendCall append;
  append.heads = a.groups;
  append.width = a.width;
  append.key_offset = spec.offset(entries.key);
  append.value_offset = spec.offset(entries.value);
  if (a.relative() == nullptr) return append;
  append.fold_offset = spec.offset(entries.fold);
  append.query_bias = weights.Table(base + ".query_bias");
  return append;
}

namespace {

void SetTurn(const Attention& a, const std::string& base, const AngleTable* angles,
             StepWeights& weights, AttentionOp& op) {
  op.turns = true;
  op.turn.groups = a.groups;
  op.turn.queries = a.sharing();
  op.turn.key = op.appends;
  op.turn.width = a.width;
  op.turn.group_stride = op.group_stride;
  op.turn.query_norm = weights.Norm(base + ".query_norm", a.query_norm);
  op.turn.key_norm = weights.Norm(base + ".key_norm", a.key_norm);
  if (const Rotary* rotary = a.rotary()) {
    op.turn.angles = angles->view();
    op.turn.magnitude = static_cast<float>(rotary->magnitude);
  }
}

}  // namespace

AttentionOp MakeAttention(const Attention& a, const std::string& base,
                          const AngleTable* angles, const NormView& norm,
                          const StateSpec& spec, const AttentionEntries& entries,
                          StepWeights& weights) {
  AttentionOp op;
  op.norm = norm;
  op.appends = a.sees != Attention::Sees::kMemory;
  std::vector<HeadRows> maps = {{base + ".query", a.sharing()}};
  if (op.appends) {
    maps.push_back({base + ".key"});
    maps.push_back({base + ".value"});
    op.append = MakeAppend(a, base, spec, entries, weights);
  }
  AttendCall& attend = op.attend;
  if (a.gated) {
    attend.gate_offset = StepWeights::GroupStride(maps, a.width);
    maps.push_back({base + ".gate", a.sharing()});
  }
  op.project = weights.ByHead(maps, a.width);
  op.group_stride = StepWeights::GroupStride(maps, a.width);
  if (a.turns()) SetTurn(a, base, angles, weights, op);
  op.output = weights.Linear({base + ".output"}, {.slice = a.width});
  attend.heads = a.heads;
  attend.sharing = a.sharing();
  attend.width = a.width;
  attend.scale = ScaleOf(a);
  if (a.cap) {
    attend.cap = static_cast<float>(*a.cap);
    attend.scale = static_cast<float>(
        a.scale.value_or(1.0 / std::sqrt(static_cast<double>(a.width))) / *a.cap);
  }
  attend.key_offset = spec.offset(entries.key);
  attend.value_offset = spec.offset(entries.value);
  attend.slopes = MakeSlopes(a, weights);
  const RelativePositions* relative = a.relative();
  if (relative == nullptr) return op;
  attend.fold_offset = spec.offset(entries.fold);
  const RelativeTable table = MakeRelativeTable(
      weights.Get(base + ".relative_key"), weights.Find(base + ".relative_bias"),
      &weights.Get(base + ".query_bias"), weights);
  attend.relative_key = table.key;
  attend.relative_bias = table.bias;
  attend.table_rows = table.rows;
  attend.zero_row = relative->zero_row;
  return op;
}

const float* MakeSlopes(const Attention& a, StepWeights& weights) {
  if (!a.alibi()) return nullptr;
  const std::vector<double> slopes = AlibiSlopes(a.heads);
  float* const kept = weights.Make(a.heads);
  std::ranges::transform(slopes, kept, [](double x) { return static_cast<float>(x); });
  return kept;
}

float ScaleOf(const Attention& a) {
  return a.scale ? static_cast<float>(*a.scale)
                 : 1.0f / std::sqrt(static_cast<float>(a.width));
}

}  // namespace mnemon
