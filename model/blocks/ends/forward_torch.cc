// SPDX-License-Identifier: MIT
#include "model/blocks/ends/forward_torch.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>

#include "model/blocks/ends/sinusoid.h"
#include "model/blocks/feed_forward/forward_torch.h"
#include "model/compute/tensor_names.h"

namespace mnemon {

at::Tensor Sinusoid(int64_t first, int64_t count, int64_t width,
                    const at::TensorOptions& options) {
  at::Tensor table = at::empty({count, width}, at::kDouble);
  double* out = table.data_ptr<double>();
  for (int64_t t = 0; t < count; ++t) {
    SinusoidRow(first + t, {out + t * width, static_cast<size_t>(width)});
  }
  return table.to(options);
}

at::Tensor Embed(const Embedding& embedding, const NamedTensors& weights,
                 const at::Tensor& tokens, int64_t first) {
  const at::Tensor& table = weights.Get(names::Weight(names::kEmbed));
  at::Tensor x = at::embedding(table, tokens.to(table.device()));
  const int64_t time = tokens.size(1), width = table.size(1);
  if (embedding.scale != 1) x = x * embedding.scale;
  switch (embedding.positions) {
    case Embedding::Positions::kSinusoidal:
      return x + Sinusoid(first, time, width, x.options());
    case Embedding::Positions::kLearned:
      return x + weights.Get(names::Weight(names::kPositions)).narrow(0, first, time);
    case Embedding::Positions::kNone:
      break;
  }
  return x;
}

at::Tensor Logits(const Head& head, const NamedTensors& weights, const at::Tensor& x,
                  const Dropout& drop) {
  const NormTensors norm = weights.Norm(names::kNorm, head.norm);
  at::Tensor z;
  if (head.classifier) {
    z = Normed(Linear(x, weights.Map(names::kHeadIn)), norm);
    z = drop(Activate(z, head.classifier->activation), DropoutKind::kHead);
  } else {
    z = Normed(x, norm);
  }
  at::Tensor logits = head.tied
                          ? at::linear(z, weights.Get(names::Weight(names::kEmbed)))
                          : Linear(z, weights.Map(names::kHead));
  if (head.scale != 1) logits = logits * head.scale;
  if (head.cap) logits = at::tanh(logits / *head.cap) * *head.cap;
  const bool norm_logits = head.classifier && head.classifier->norm_logits;
  return norm_logits ? LayerNorm(logits, weights.Map(names::kLogitsNorm)) : logits;
}

}  // namespace mnemon
