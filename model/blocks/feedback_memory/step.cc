// SPDX-License-Identifier: MIT
#include "model/blocks/feedback_memory/step.h"

#include <algorithm>
#include <vector>

#include "model/compute/functions.h"
#include "model/compute/tensor_names.h"

namespace mnemon {
namespace {

const float* MakeMix(StepWeights& weights) {
  const TensorView& view = weights.Get(names::kMemoryMix);
  float* const mix = weights.Make(view.rows());
  weights.Later(BytesOfRows(view, 0, view.rows()), [mix, from = &view] {
    std::vector<float> raw(from->count());
    ReadRows(*from, 0, from->rows(), raw.data());
    const double most = std::ranges::max(raw);
    double total = 0;
    for (const float value : raw) total += numerics::Exp(value - most);
    for (size_t l = 0; l < raw.size(); ++l) {
      mix[l] = Flush(static_cast<float>(numerics::Exp(raw[l] - most) / total));
    }
  });
  return mix;
}

}  // namespace

RememberOp MakeRemember(const FeedbackMemory& memory,
                        const std::vector<MemoryReading>& readings,
                        const StateSpec& spec, StepWeights& weights) {
  std::vector<HeadRows> maps;
  if (memory.shared) {
    maps = {{names::kMemoryKey}, {names::kMemoryValue}};
  } else {
    for (const MemoryReading& reading : readings) {
      maps.push_back({reading.base + ".key"});
      maps.push_back({reading.base + ".value"});
    }
  }
  const int64_t width = readings[0].attention->width;
  RememberOp op{.mix = MakeMix(weights),
                .maps = weights.ByHead(maps, width),
                .head_stride = StepWeights::GroupStride(maps, width),
                .pair_stride = memory.shared ? 0 : 2 * Padded(width),
                .appends = {}};
  for (const MemoryReading& reading : readings) {
    op.appends.push_back(
        MakeAppend(*reading.attention, reading.base, spec, reading.entries, weights));
  }
  return op;
}

}  // namespace mnemon
