// SPDX-License-Identifier: MIT
// The weights of a step form: found among the views of a model by name and packed.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config/config.h"
#include "model/kernels/kernels.h"
#include "model/kernels/packed_weights.h"
#include "model/weights/weights.h"

namespace mnemon {

// Names as in model/weights/tensor_names.h. What the views show must outlive it.
class StepWeights {
 public:
  StepWeights(const TensorViews& views, WeightFormat format)
      : views_(views), packed_(format) {}

  // Null when there is none of that name.
  const TensorView* Find(std::string_view name) const;
  // REQUIRES: there is one.
  const TensorView& Get(std::string_view name) const;

  // base.weight [N, K] and base.bias, as far as it is there, of each base one below
  // the other.
  MatrixView Linear(const std::vector<std::string>& bases);
  NormView Norm(const std::string& base) const;
  PackedWeights& packed() { return packed_; }
  const PackedWeights& packed() const { return packed_; }

 private:
  const TensorViews views_;
  PackedWeights packed_;
};

// The feed-forward sub-layer: see model/layers/feed_forward.h.
struct StepFeedForward {
  NormView norm;
  MatrixView in, factor, out;
  bool gated = false;
  Act act = Act::kRelu;
};
StepFeedForward MakeStepFeedForward(const ModelConfig& config, int64_t layer,
                                    StepWeights& weights);

// x [rows, D] += FFN(LN(x)), or out = x + FFN(LN(x)); `hidden` holds [rows, F].
// Synchronised at both ends.
void AddFeedForward(StepKernels& k, const StepFeedForward& weights, int64_t rows,
                    ConstRows x, Rows hidden, Rows out);

// What stands before the first layer and behind the last: see model/layers/frame.h.
struct StepFrame {
  const float* embed = nullptr;  // [V, D]
  int64_t width = 0;             // D
  float scale = 1.0f;
  NormView norm;
  MatrixView head;
};
StepFrame MakeStepFrame(const ModelConfig& config, StepWeights& weights);

// x [rows, D] = the embedded tokens, plus `positions` where that is not null.
void EmbedTokens(StepKernels& k, const StepFrame& frame, int64_t rows,
                 const int32_t* ids, const float* const* positions, Rows x);
// Logits [wanted, V] of those rows of x.
void WriteLogits(StepKernels& k, const StepFrame& frame, ConstRows x,
                 const std::vector<int32_t>& wanted, float* logits);

}  // namespace mnemon
