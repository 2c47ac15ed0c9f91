// SPDX-License-Identifier: MIT
#include "model/blocks/attention/forward_torch.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/blocks/attention/positions_torch.h"
#include "model/blocks/attention/score_mask_torch.h"

namespace mnemon {
namespace {

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

// Number of earlier keys that a query sees.
int64_t ReachOf(const Attention& a) {
  return a.window && !a.whole_segments ? *a.window : kAny;
}

// The last rows of all [B, n, ...] that a continuation can see.
at::Tensor Kept(int64_t kept, const at::Tensor& all) {
  return all.size(1) <= kept ? all : all.narrow(1, all.size(1) - kept, kept);
}

// `z`: the inputs of the queries, from which gates are computed.
AttentionOutput Finish(const Attention& a, const NamedTensors& weights,
                       const std::string& base, const at::Tensor& z,
                       const Attended& attended) {
  at::Tensor mixed = MergeHeads(attended.mixed, a.heads);
  if (a.gated) mixed = mixed * at::sigmoid(Linear(z, weights.Map(base + ".gate")));
  return {.y = Linear(mixed, weights.Map(base + ".output")),
          .weights = MapsOfBatch(attended.weights, a.heads)};
}

}  // namespace

absl::Status CheckReach(const Attention& a, int64_t position, int64_t time) {
  if (!a.whole_segments || a.relative() == nullptr) return absl::OkStatus();
  const int64_t before = std::min(position, *a.window), reach = before + time - 1;
  if (reach <= a.relative()->farthest()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   StrCat("a segment of ", time, " tokens after ", before,
                          " in memory reaches back ", reach,
                          " positions; the model has ", a.relative()->farthest()),
                   {.reason = "CONTEXT_LIMIT"});
}

absl::StatusOr<ScoreMask> WholeMask(const Attention& a, const at::Tensor& given,
                                    const at::Tensor& x) {
  const int64_t batch = x.size(0), time = x.size(1);
  ScoreMask mask;
  if (given.defined()) {
    MNEMON_ASSIGN_OR_RETURN(
        mask,
        MakeScoreMask(given.to(x.device()),
                      {.batch = batch, .heads = a.heads, .queries = time, .keys = time},
                      x.scalar_type()));
  } else if (a.sees == Attention::Sees::kPast) {
    mask.bias = CausalMask(time, time, kAny, x.options());
  }
  if (a.alibi()) {
    mask.bias = MaskedAlibiBias(a.heads, batch, time, time, mask.bias, x.options());
  }
  return mask;
}

AttentionOutput Forward(const Attention& a, const NamedTensors& weights,
                        const std::string& base, const NormTensors& norm,
                        const at::Tensor& x, const BlockCall& call) {
  const int64_t batch = x.size(0), time = x.size(1);
  const bool inputs = a.carries == Attention::Carries::kInputs;
  at::Tensor source = x;  // [B, n, D]
  if (inputs && !call.carried.empty()) {
    source = at::cat({call.carried[0].detach(), x}, 1);
  }
  if (inputs && a.window > 0) {
    call.next.push_back(Kept(call.kept, source.detach()).contiguous());
  }
  const at::Tensor z = Normed(source, norm);
  // Result of a projection [B, T, heads K], with norms and positions applied.
  const auto turned = [&](const char* part, int64_t heads, const Norm& norm,
                          const at::Tensor& rows) {
    if (!a.turns()) return rows;
    at::Tensor y =
        Normed(rows.to(x.scalar_type()).view({batch, rows.size(1), heads, a.width}),
               weights.Norm(base + part, norm));
    if (a.rotary() != nullptr) y = Turned(*a.rotary(), y, call.position);
    return y.flatten(2);
  };
  // Keys or values so far [H*B, J, K], from carried rows or carried inputs.
  const auto rows = [&](const char* part, size_t entry) {
    at::Tensor all = Linear(z, weights.Map(base + part));
    if (!inputs) {
      // The carry keeps the type of the weights, even under autocast.
      all = all.to(z.scalar_type());
      if (entry == 0) all = turned(".key_norm", a.groups, a.key_norm, all);
      if (!call.carried.empty()) {
        all = at::cat({call.carried[entry].flatten(2), all}, 1);
      }
      if (a.window != 0) {
        call.next.push_back(
            Kept(call.kept, all.view({batch, all.size(1), a.groups, a.width})));
      }
    }
    return ShareHeads(SplitHeads(all, a.groups), a.groups, a.sharing());
  };
  const at::Tensor own = z.narrow(1, z.size(1) - time, time);
  at::Tensor q = turned(".query_norm", a.heads, a.query_norm,
                        Linear(own, weights.Map(base + ".query")));
  if (a.scale) q = q * (*a.scale * std::sqrt(static_cast<double>(a.width)));
  RelativeQuery query{.q = SplitHeads(q, a.heads), .bias = {}};
  const at::Tensor k = rows(".key", 0), v = rows(".value", 1);
  const int64_t keys = k.size(1);
  query.bias = CausalMask(time, keys, ReachOf(a), x.options());
  if (a.alibi()) {
    query.bias = MaskedAlibiBias(a.heads, batch, time, keys, query.bias, x.options());
  }
  if (const RelativePositions* relative = a.relative()) {
    query = AddRelativePositions(
        query.q,
        {.key = weights.Get(base + ".relative_key"),
         .bias = weights.Get(base + ".relative_bias"),
         .query_bias = weights.Get(base + ".query_bias")},
        {.zero_row = relative->zero_row, .farthest = std::min(keys - 1, ReachOf(a))},
        keys, query.bias);
  }
  return Finish(
      a, weights, base, own,
      Attend(query.q, k, v, {.bias = query.bias, .empty = {}, .cap = a.cap.value_or(0)},
             call.drop));
}

AttentionOutput ForwardWhole(const Attention& a, const NamedTensors& weights,
                             const std::string& base, const NormTensors& norm,
                             const at::Tensor& x, const ScoreMask& mask,
                             const Dropout& drop) {
  const at::Tensor z = Normed(x, norm);
  const auto heads_of = [&](const char* part, int64_t heads) {
    return SplitHeads(Linear(z, weights.Map(base + part)), heads);
  };
  const auto kept = [&](const char* part) {
    return ShareHeads(heads_of(part, a.groups), a.groups, a.sharing());
  };
  return Finish(
      a, weights, base, z,
      Attend(heads_of(".query", a.heads), kept(".key"), kept(".value"), mask, drop));
}

at::Tensor NotebookMap(const Attention& a, const NamedTensors& weights,
                       const std::string& base, const at::Tensor& x,
                       const ScoreMask& mask) {
  const auto heads_of = [&](const char* part) {
    return SplitHeads(Linear(x, weights.Map(base + part)), a.heads);
  };
  return MapsOfBatch(AttentionWeights(heads_of(".query"), heads_of(".key"), mask),
                     a.heads);
}

}  // namespace mnemon
