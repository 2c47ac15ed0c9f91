// SPDX-License-Identifier: MIT
#include "model/steps/step_weights.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "model/kernels/cpu_operations.h"
#include "model/weights/tensor_names.h"

namespace mnemon {
namespace {

// What one thread packs at once, about.
constexpr int64_t kPartFloats = int64_t{1} << 16;

}  // namespace

std::string StepNumericsId(const StepOptions& options) {
  return StrCat("step/", options.format == WeightFormat::kFp32 ? "fp32" : "bf16",
                "/cpu-", options.operations->target, "/r", kKernelRevision);
}

StepWeights::StepWeights(const TensorViews& views, const StepOptions& options)
    : views_(views),
      on_packed_(options.packed),
      pool_(*options.pool),
      packed_(options.format) {}

const TensorView* StepWeights::Find(std::string_view name) const {
  for (const TensorView& view : views_) {
    if (view.name == name) return &view;
  }
  return nullptr;
}

const TensorView& StepWeights::Get(std::string_view name) const {
  const TensorView* view = Find(name);
  MNEMON_CHECK(view != nullptr);
  return *view;
}

void StepWeights::Add(const TensorView& view, std::function<void()> fill) {
  parts_.push_back({std::move(fill), &view});
  ++readers_[&view];
}

void StepWeights::Later(std::function<void()> fill) {
  parts_.push_back({std::move(fill)});
}

MatrixView StepWeights::Linear(const std::vector<std::string>& bases) {
  int64_t outputs = 0, inputs = 0;
  bool bias = false;
  for (const std::string& base : bases) {
    const TensorView& weight = Get(names::Weight(base));
    outputs += weight.shape[0];
    inputs = weight.shape[1];
    bias = bias || Find(names::Bias(base)) != nullptr;
  }
  const MatrixView room = packed_.Room(outputs, inputs, bias);
  const int64_t most = std::max<int64_t>(1, kPartFloats / inputs / kPanel) * kPanel;
  int64_t at = 0;
  for (const std::string& base : bases) {
    const TensorView& weight = Get(names::Weight(base));
    const TensorView* own_bias = Find(names::Bias(base));
    const PlainMatrix plain{.weights = weight.data,
                            .bias = own_bias == nullptr ? nullptr : own_bias->data,
                            .outputs = weight.shape[0]};
    for (int64_t first = 0; first < plain.outputs; first += most) {
      Add(weight, [room, at, plain, first, most] {
        PackedWeights::Fill(room, at, plain, first,
                            std::min(most, plain.outputs - first));
      });
    }
    at += plain.outputs;
  }
  return room;
}

const float* StepWeights::Table(std::string_view name) {
  const TensorView& view = Get(name);
  int64_t count = 1;
  for (const int64_t size : view.shape) count *= size;
  float* const to = packed_.Make(count);
  const float* const from = view.data;
  for (int64_t first = 0; first < count; first += kPartFloats) {
    Add(view, [to, from, first, count] {
      std::copy_n(from + first, std::min(kPartFloats, count - first), to + first);
    });
  }
  return to;
}

NormView StepWeights::Norm(const std::string& base) {
  return {.gain = Table(names::Weight(base)), .bias = Table(names::Bias(base))};
}

void StepWeights::Pack() {
  std::unordered_map<const TensorView*, std::atomic<int64_t>> left;
  for (const auto& [view, count] : readers_) left[view] = count;
  std::atomic<size_t> next = 0;
  const auto work = [&](int) {
    for (size_t i = next++; i < parts_.size(); i = next++) {
      parts_[i].fill();
      const TensorView* view = parts_[i].view;
      if (view != nullptr && --left.at(view) == 0 && on_packed_) on_packed_(*view);
    }
  };
  pool_.Run(
      [](void* given, int index) { (*static_cast<decltype(work)*>(given))(index); },
      const_cast<void*>(static_cast<const void*>(&work)));
  parts_ = {};
  readers_ = {};
  views_ = {};
}

StepFeedForward MakeStepFeedForward(const ModelConfig& config, int64_t layer,
                                    StepWeights& weights) {
  const auto name = [layer](const char* part) { return names::Layer(layer, part); };
  StepFeedForward made{
      .norm = weights.Norm(name(names::kFfNorm)),
      .in = weights.Linear({name(names::kFfIn)}),
      .factor = {},
      .out = weights.Linear({name(names::kFfOut)}),
      .gated = config.gated,
      .act = config.activation == Activation::kGelu ? Act::kGelu : Act::kRelu};
  if (config.gated) made.factor = weights.Linear({name(names::kFfFactor)});
  return made;
}

void AddFeedForward(StepKernels& k, const StepFeedForward& weights, int64_t rows,
                    ConstRows x, Rows hidden, Rows out) {
  k.Linear({.rows = rows,
            .in = x,
            .norm = weights.norm,
            .weights = weights.in,
            .act = weights.act,
            .gate = weights.gated ? &weights.factor : nullptr,
            .out = hidden});
  k.Sync();
  k.Linear(
      {.rows = rows, .in = hidden, .weights = weights.out, .residual = x, .out = out});
  k.Sync();
}

StepFrame MakeStepFrame(const ModelConfig& config, StepWeights& weights) {
  // In float32 the packed head serves as the embedding too.
  const bool shared =
      config.tie_head && weights.packed().format() == WeightFormat::kFp32;
  StepFrame frame{
      .embed = shared ? nullptr : weights.Table(names::Weight(names::kEmbed)),
      .width = config.d_model,
      .scale = config.embed_scale
                   ? static_cast<float>(std::sqrt(static_cast<double>(config.d_model)))
                   : 1.0f,
      .norm = weights.Norm(names::kNorm),
      .head = {}};
  // The embedding is the head when they are tied, and then has no bias.
  frame.head = weights.Linear({config.tie_head ? names::kEmbed : names::kHead});
  return frame;
}

void EmbedTokens(StepKernels& k, const StepFrame& frame, int64_t rows,
                 const int32_t* ids, const float* const* positions, Rows x) {
  k.Embed({.rows = rows,
           .width = frame.width,
           .table = frame.embed,
           .tied = frame.embed == nullptr ? &frame.head : nullptr,
           .scale = frame.scale,
           .ids = ids,
           .positions = positions,
           .out = x});
}

void WriteLogits(StepKernels& k, const StepFrame& frame, ConstRows x,
                 const std::vector<int32_t>& wanted, float* logits) {
  if (wanted.empty()) return;
  k.Linear({.rows = static_cast<int64_t>(wanted.size()),
            .in = x,
            .pick = wanted.data(),
            .norm = frame.norm,
            .weights = frame.head,
            .out = {logits, frame.head.outputs}});
}

}  // namespace mnemon
