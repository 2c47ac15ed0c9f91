// SPDX-License-Identifier: MIT
#include "model/sequence/model.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

absl::Status CheckTokens(const ModelDescription& model, const at::Tensor& tokens) {
  if (!tokens.defined() || tokens.dim() != 2 || tokens.scalar_type() != at::kLong) {
    return InvalidField("tokens", "tokens must be int64 of shape [B, T]");
  }
  if (tokens.size(0) < 1 || tokens.size(1) < 1) {
    return InvalidField("tokens", StrCat("tokens must hold at least one token, got [",
                                         tokens.size(0), ", ", tokens.size(1), "]"));
  }
  for (const int64_t token :
       {tokens.min().item<int64_t>(), tokens.max().item<int64_t>()}) {
    if (token < 0 || token >= model.vocab) {
      return InvalidField("tokens",
                          StrCat("token ", token, " is not in 0..", model.vocab - 1));
    }
  }
  return absl::OkStatus();
}

// Shape of `entry` in a carry, [B, ...].
std::vector<int64_t> CarryShape(const StateEntry& entry, int64_t batch,
                                int64_t position) {
  std::vector<int64_t> shape = {batch};
  if (entry.growth == Growth::kAppend) shape.push_back(position);
  if (entry.growth == Growth::kRing) {
    shape.push_back(std::min(position, entry.capacity));
  }
  shape.insert(shape.end(), entry.shape.begin(), entry.shape.end());
  return shape;
}

absl::Status CheckCarry(const StateSpec& spec, int64_t batch, const Carry& carry) {
  const size_t expected = carry.fresh() ? 0 : spec.entries.size();
  if (carry.position < 0 || carry.tensors.size() != expected) {
    return InvalidField(
        "carry", StrCat("a carry at position ", carry.position, " has ", expected,
                        " tensors, got ", carry.tensors.size()));
  }
  for (size_t i = 0; i < expected; ++i) {
    const std::vector<int64_t> shape =
        CarryShape(spec.entries[i], batch, carry.position);
    const at::Tensor& tensor = carry.tensors[i];
    if (!tensor.defined() || tensor.sizes() != shape) {
      return InvalidField("carry",
                          StrCat("carry entry ", spec.entries[i].name, " must be [",
                                 StrJoin(shape, ", "), "], got [",
                                 StrJoin(tensor.defined() ? tensor.sizes().vec()
                                                          : std::vector<int64_t>{},
                                         ", "),
                                 "]"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLength(int64_t time, int64_t position, int64_t limit) {
  if (time <= limit - position) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   StrCat(time, " tokens after ", position,
                          " are beyond the model's limit of ", limit),
                   {.reason = "CONTEXT_LIMIT"});
}

}  // namespace

Carry Carry::Detached() const {
  Carry carry{.position = position, .tensors = {}};
  for (const at::Tensor& tensor : tensors) carry.tensors.push_back(tensor.detach());
  return carry;
}

absl::Status CheckForward(const ModelDescription& model, const StateSpec& carry_spec,
                          const at::Tensor& tokens, const Carry& carry,
                          const ForwardOptions& options) {
  MNEMON_RETURN_IF_ERROR(CheckTokens(model, tokens));
  MNEMON_RETURN_IF_ERROR(CheckCarry(carry_spec, tokens.size(0), carry));
  if (options.mask.defined()) {
    return InvalidField("mask", "a model that goes token by token takes no mask");
  }
  if (options.maps == AttentionMaps::kNotebook) {
    return InvalidField("maps",
                        "a model that goes token by token shows the attention "
                        "weights in use alone");
  }
  return CheckLength(tokens.size(1), carry.position, carry_spec.max_positions());
}

absl::Status CheckEncode(const ModelDescription& model, const at::Tensor& tokens,
                         const Carry& carry) {
  MNEMON_RETURN_IF_ERROR(CheckTokens(model, tokens));
  if (!carry.fresh() || !carry.tensors.empty()) {
    return InvalidField("carry", "an encoder continues nothing: it takes no carry");
  }
  return CheckLength(tokens.size(1), 0, model.context);
}

int64_t CountParameters(Model& model) {
  int64_t count = 0;
  model.Visit([&](const std::string&, at::Tensor& tensor) { count += tensor.numel(); });
  return count;
}

TensorViews ViewWeights(Model& model) {
  TensorViews views;
  model.Visit([&](const std::string& name, at::Tensor& tensor) {
    MNEMON_CHECK(tensor.scalar_type() == at::kFloat && tensor.is_contiguous() &&
                 tensor.is_cpu());
    views.push_back({name, tensor.sizes().vec(), tensor.data_ptr<float>()});
  });
  return views;
}

TensorViews ViewCarry(const StateSpec& carry_spec, const Carry& carry) {
  TensorViews views;
  for (size_t i = 0; i < carry.tensors.size(); ++i) {
    const at::Tensor& tensor = carry.tensors[i];
    MNEMON_CHECK(tensor.size(0) == 1 && tensor.scalar_type() == at::kFloat &&
                 tensor.is_contiguous() && tensor.is_cpu());
    views.push_back({carry_spec.entries[i].name, tensor.sizes().slice(1).vec(),
                     tensor.data_ptr<float>()});
  }
  return views;
}

void CastWeights(Model& model, at::ScalarType type) {
  model.Visit([&](const std::string&, at::Tensor& tensor) {
    tensor = tensor.detach().to(type);
  });
}

void RequireGradients(Model& model, bool on) {
  model.Visit(
      [&](const std::string&, at::Tensor& tensor) { tensor.set_requires_grad(on); });
}

}  // namespace mnemon
