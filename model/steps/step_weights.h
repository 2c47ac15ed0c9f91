// SPDX-License-Identifier: MIT
// The weights of a step form: found among the views of a model by name and packed.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config/config.h"
#include "model/kernels/kernels.h"
#include "model/kernels/packed_weights.h"
#include "model/kernels/thread_pool.h"
#include "model/steps/step_options.h"
#include "model/weights/weights.h"

namespace mnemon {

class CpuWorker;

// Names as in model/weights/tensor_names.h. First a step form asks for what it needs
// and gets where it will be; then Pack() writes all of it, in parts on all threads of
// the pool, in the order in which the weights are read. What the views show must
// outlive Pack, and is not needed afterwards.
class StepWeights {
 public:
  StepWeights(const TensorViews& views, const StepOptions& options);

  // Their data may be read by what Pack calls alone. Null when there is none of that
  // name.
  const TensorView* Find(std::string_view name) const;
  // REQUIRES: there is one.
  const TensorView& Get(std::string_view name) const;

  // base.weight [N, K] and base.bias, as far as it is there, of each base one below
  // the other; `slice` as of PackedWeights::Room.
  MatrixView Linear(const std::vector<std::string>& bases, int64_t slice = 0);
  // As it is, in float32.
  const float* Table(std::string_view name);
  NormView Norm(const std::string& base);
  // Makes room at once.
  float* Make(int64_t count, int64_t margin = 0) { return packed_.Make(count, margin); }
  // Has Pack call `fill`, which reads `sources`: before, their data may not be there.
  void Later(std::initializer_list<std::span<const float>> sources,
             std::function<void()> fill);

  void Pack();

  const PackedWeights& packed() const { return packed_; }

 private:
  // Part of what Pack does: reads weights from `begin` to `end`.
  struct Part {
    std::function<void()> fill;
    const float* begin = nullptr;
    const float* end = nullptr;
  };

  TensorViews views_;
  const WeightStream stream_;
  ThreadPool& pool_;
  PackedWeights packed_;
  std::vector<Part> parts_;
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
void AddFeedForward(CpuWorker& k, const StepFeedForward& weights, int64_t rows,
                    ConstRows x, Rows hidden, Rows out);

// What stands before the first layer and behind the last: see model/layers/frame.h.
struct StepFrame {
  const float* embed = nullptr;  // [V, D]; null: the head, to which it is tied
  int64_t width = 0;             // D
  float scale = 1.0f;
  NormView norm;
  MatrixView head;
};
StepFrame MakeStepFrame(const ModelConfig& config, StepWeights& weights);

// x [rows, D] = the embedded tokens, plus `positions` where that is not null.
void EmbedTokens(CpuWorker& k, const StepFrame& frame, int64_t rows, const int32_t* ids,
                 const float* const* positions, Rows x);
// Logits [wanted, V] of those rows of x.
void WriteLogits(CpuWorker& k, const StepFrame& frame, ConstRows x,
                 const std::vector<int32_t>& wanted, float* logits);

}  // namespace mnemon
