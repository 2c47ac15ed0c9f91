// SPDX-License-Identifier: MIT
#include "model/blocks/fast_weights/forward_torch.h"

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros.h>

#include "model/blocks/attention/attend_torch.h"
#include "model/blocks/fast_weights/delta_rule_torch.h"

namespace mnemon {
namespace {

// [.., K] -> [.., N].
at::Tensor Features(const FastWeights& fast, const at::Tensor& x) {
  return fast.map.elu ? EluFeatures(x) : Dpfp(x, fast.map.nu);
}

// Entry state as rows [H*B, ...], of `shape` per sequence.
at::Tensor EntryState(const BlockCall& call, size_t entry, std::vector<int64_t> shape,
                      const at::Tensor& z) {
  shape[0] *= z.size(0);
  return call.carried.empty() ? at::zeros(shape, z.options())
                              : call.carried[entry].transpose(0, 1).reshape(shape);
}

}  // namespace

at::Tensor Forward(const FastWeights& fast, const NamedTensors& weights,
                   const std::string& base, const at::Tensor& z,
                   const BlockCall& call) {
  FastWeightState state{
      .w = EntryState(call, 0, {fast.heads, fast.width, fast.features()}, z), .z = {}};
  if (fast.normalised) {
    state.z = EntryState(call, 1, {fast.heads, fast.features()}, z);
  }
  // [H*B, T, K], in the type of the state, even under autocast.
  const auto heads = [&](const char* part) {
    return SplitHeads(Linear(z, weights.Map(base + part)), fast.heads)
        .to(z.scalar_type());
  };
  FastWeightInput input{.q = Features(fast, heads(".query")),
                        .k = Features(fast, heads(".key")),
                        .v = heads(".value"),
                        .beta = {}};
  if (fast.rule == UpdateRule::kDelta) input.beta = at::sigmoid(heads(".gate"));
  const at::Tensor mixed = RunFastWeights(input, state);
  // [H*B, ...] -> [B, H, ...].
  for (const at::Tensor& rows : {state.w, state.z}) {
    if (!rows.defined()) continue;
    call.next.push_back(
        rows.unflatten(0, {fast.heads, -1}).transpose(0, 1).contiguous());
  }
  return Linear(MergeHeads(mixed, fast.heads), weights.Map(base + ".output"));
}

}  // namespace mnemon
