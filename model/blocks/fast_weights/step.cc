// SPDX-License-Identifier: MIT
#include "model/blocks/fast_weights/step.h"

namespace mnemon {

FastWeightsOp MakeFastWeights(const FastWeights& fast, const std::string& base,
                              const NormView& norm, const StateSpec& spec, size_t entry,
                              StepWeights& weights) {
  FastWeightsOp op;
  op.norm = norm;
  const std::vector<HeadRows> maps = {
      {base + ".query"}, {base + ".key"}, {base + ".value"}};
  op.project = weights.ByHead(maps, fast.width, {.exact = true});
  op.head_stride = StepWeights::GroupStride(maps, fast.width);
  if (fast.rule == UpdateRule::kDelta) {
    op.gate = weights.Linear({base + ".gate"}, {.exact = true});
  }
  op.output = weights.Linear({base + ".output"}, {.slice = fast.width, .exact = true});
  op.call.heads = fast.heads;
  op.call.width = fast.width;
  op.call.map = fast.map;
  op.call.state_offset = spec.offset(entry);
  if (fast.normalised) op.call.normaliser_offset = spec.offset(entry + 1);
  return op;
}

}  // namespace mnemon
