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

AttentionOp MakeAttention(const Attention& a, const std::string& base,
                          const NormView& norm, const StateSpec& spec,
                          const AttentionEntries& entries, StepWeights& weights) {
  AttentionOp op;
  op.norm = norm;
  op.appends = a.sees != Attention::Sees::kMemory;
  std::vector<HeadRows> maps = {{base + ".query", a.sharing()}};
  if (op.appends) {
    maps.push_back({base + ".key"});
    maps.push_back({base + ".value"});
    op.append = MakeAppend(a, base, spec, entries, weights);
  }
  op.project = weights.ByHead(maps, a.width);
  op.group_stride = StepWeights::GroupStride(maps, a.width);
  op.output = weights.Linear({base + ".output"}, {.slice = a.width});
  AttendCall& attend = op.attend;
  attend.heads = a.heads;
  attend.sharing = a.sharing();
  attend.width = a.width;
  attend.scale = ScaleOf(a);
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
  return 1.0f / std::sqrt(static_cast<float>(a.width));
}

}  // namespace mnemon
