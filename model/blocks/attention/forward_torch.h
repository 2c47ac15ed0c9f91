// SPDX-License-Identifier: MIT
// Attention to the past, or to whole sequences, in sequence forms; see settings.h.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/blocks/affine_torch.h"
#include "model/blocks/attention/attend_torch.h"
#include "model/blocks/attention/settings.h"
#include "model/blocks/block_call_torch.h"

namespace mnemon {

// FAILED_PRECONDITION if a call of `time` tokens at `position` reaches beyond the
// tables of relative positions.
absl::Status CheckReach(const Attention& attention, int64_t position, int64_t time);

// Keys that the queries of whole sequences x [B, T, D] see. `given`, if defined,
// replaces the model's own mask: see MakeScoreMask.
absl::StatusOr<ScoreMask> WholeMask(const Attention& attention, const at::Tensor& given,
                                    const at::Tensor& x);

struct AttentionOutput {
  at::Tensor y;        // [B, T, D], before its dropout
  at::Tensor weights;  // [B, H, T, J], before dropout
};

// x [B, T, D], not normed.
AttentionOutput Forward(const Attention& attention, const NamedTensors& weights,
                        const std::string& base, const NormTensors& norm,
                        const at::Tensor& x, const BlockCall& call);
// Attention over whole sequences, with a mask from WholeMask.
AttentionOutput ForwardWhole(const Attention& attention, const NamedTensors& weights,
                             const std::string& base, const NormTensors& norm,
                             const at::Tensor& x, const ScoreMask& mask,
                             const Dropout& drop);
// Maps of the attention notebook, computed from x itself. [B, H, T, T].
at::Tensor NotebookMap(const Attention& attention, const NamedTensors& weights,
                       const std::string& base, const at::Tensor& x,
                       const ScoreMask& mask);

}  // namespace mnemon
