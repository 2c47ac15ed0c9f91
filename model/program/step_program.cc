// SPDX-License-Identifier: MIT
#include "model/program/step_program.h"

namespace mnemon {

EmbedCall CallOf(const EmbedOp& op, const LogitsOp& logits) {
  return {.rows = 0,
          .width = logits.head.inputs,
          .table = op.table,
          .tied = op.table == nullptr ? &logits.head : nullptr,
          .scale = op.scale,
          .learned = op.learned,
          .sinusoid = op.sinusoid ? op.sinusoid->view() : SinusoidView{}};
}

int64_t StepProgram::levels() const {
  return remember ? static_cast<int64_t>(remember->appends.size()) + 1 : 1;
}

int64_t StepProgram::hidden_slices() const {
  for (const SubLayerOp& op : layers) {
    if (const auto* feed = std::get_if<FeedForwardOp>(&op)) return feed->out.slices();
  }
  return 0;
}

}  // namespace mnemon
