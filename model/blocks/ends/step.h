// SPDX-License-Identifier: MIT
// Embedding and head in step programs: the operations as data, with packed weights.
#pragma once

#include <cstdint>
#include <optional>

#include "model/blocks/ends/settings.h"
#include "model/compute/angle_table.h"
#include "model/compute/kernels.h"
#include "model/compute/step_weights.h"

namespace mnemon {

struct EmbedOp {
  const float* table = nullptr;      // [V, D]
  std::optional<MatrixView> packed;  // alternative to `table`; with neither, the head
  float scale = 1.0f;
  const float* learned = nullptr;  // [P, D]
  std::optional<AngleTable> sinusoid;
};

struct LogitsOp {
  NormView norm;
  MatrixView head;     // [V, D]
  float scale = 1.0f;  // divided by the cap, if there is one
  float cap = 0.0f;    // 0: none
};

// A call without rows.
EmbedCall CallOf(const EmbedOp& op, const LogitsOp& logits);

// Weights are filled by weights.Pack().
LogitsOp MakeLogits(const Head& head, StepWeights& weights);
// The head may serve as the embedding too. D = `width`, P = `context`.
EmbedOp MakeEmbed(const Embedding& embedding, const Head& head, const LogitsOp& logits,
                  int64_t width, int64_t context, StepWeights& weights);

}  // namespace mnemon
