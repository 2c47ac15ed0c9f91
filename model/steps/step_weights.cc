// SPDX-License-Identifier: MIT
#include "model/steps/step_weights.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "model/kernels/cpu_operations.h"
#include "model/kernels/cpu_team.h"
#include "model/weights/tensor_names.h"

namespace mnemon {
namespace {

// What one thread packs at once, about.
constexpr size_t kPartFloats = size_t{1} << 16;

}  // namespace

std::string StepNumericsId(const StepOptions& options) {
  const std::string format = options.format == WeightFormat::kFp32 ? "fp32" : "bf16";
  // The plain loops keep to no numerics.
  if (options.operations == &ReferenceOperations()) {
    return StrCat("step/", format, "/reference");
  }
  return StrCat("step/", format, "/r", kKernelRevision);
}

StepWeights::StepWeights(const TensorViews& views, const StepOptions& options)
    : views_(views),
      stream_(options.stream),
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

void StepWeights::Later(std::initializer_list<std::span<const float>> sources,
                        std::function<void()> fill) {
  Part& part = parts_.emplace_back(std::move(fill));
  for (const std::span<const float> source : sources) {
    const float* const end = source.data() + source.size();
    if (part.end == nullptr || std::less<>()(part.end, end)) part.end = end;
    if (part.begin == nullptr || std::less<>()(source.data(), part.begin)) {
      part.begin = source.data();
    }
  }
}

MatrixView StepWeights::Linear(const std::vector<std::string>& bases, int64_t slice) {
  int64_t outputs = 0, inputs = 0;
  bool bias = false;
  for (const std::string& base : bases) {
    const TensorView& weight = Get(names::Weight(base));
    outputs += weight.shape[0];
    inputs = weight.shape[1];
    bias = bias || Find(names::Bias(base)) != nullptr;
  }
  const MatrixView room = packed_.Room(outputs, inputs, bias, slice);
  const auto width = static_cast<size_t>(inputs);
  const size_t most =
      std::max<size_t>(1, kPartFloats / width / kPanel) * kPanel * width;
  int64_t at = 0;
  for (const std::string& base : bases) {
    const std::span<const float> all = Get(names::Weight(base)).values();
    const TensorView* own_bias = Find(names::Bias(base));
    if (own_bias != nullptr) {
      Later({own_bias->values()}, [room, at, biases = own_bias->values()] {
        PackedWeights::FillBias(room, at, biases);
      });
    }
    for (size_t first = 0; first < all.size(); first += most) {
      const auto rows = all.subspan(first, std::min(most, all.size() - first));
      Later({rows}, [room, at, rows] { PackedWeights::Fill(room, at, rows); });
      at += static_cast<int64_t>(rows.size() / width);
    }
  }
  return room;
}

const float* StepWeights::Table(std::string_view name) {
  const std::span<const float> all = Get(name).values();
  float* const to = packed_.Make(static_cast<int64_t>(all.size()));
  for (size_t first = 0; first < all.size(); first += kPartFloats) {
    const auto some = all.subspan(first, std::min(kPartFloats, all.size() - first));
    Later({some}, [to = to + first, some] { std::ranges::transform(some, to, Flush); });
  }
  return to;
}

NormView StepWeights::Norm(const std::string& base) {
  return {.gain = Table(names::Weight(base)), .bias = Table(names::Bias(base))};
}

void StepWeights::Pack() {
  std::ranges::stable_sort(parts_, std::less<>(), &Part::end);
  // Where the weights begin that part i and those behind it read.
  std::vector<const float*> needed(parts_.size());
  for (size_t i = parts_.size(); i-- > 0;) {
    needed[i] = parts_[i].begin;
    if (i + 1 < parts_.size()) {
      needed[i] = std::min(needed[i], needed[i + 1], std::less<>());
    }
  }
  std::mutex mutex;
  // Guarded by mutex:
  std::vector<bool> done(parts_.size());
  size_t first = 0;  // that is not done
  std::atomic<size_t> next = 0;
  const auto work = [&](int) {
    for (size_t i = next++; i < parts_.size(); i = next++) {
      if (stream_.await) stream_.await(parts_[i].end);
      parts_[i].fill();
      if (!stream_.release_before) continue;
      const float* begin = nullptr;
      {
        std::lock_guard lock(mutex);
        done[i] = true;
        if (!done[first]) continue;
        while (first < parts_.size() && done[first]) ++first;
        begin = parts_[first - 1].end;  // what lies behind it may not be there
        if (first < parts_.size())
          begin = std::min(begin, needed[first], std::less<>());
      }
      stream_.release_before(begin);
    }
  };
  pool_.Run(
      [](void* given, int index) { (*static_cast<decltype(work)*>(given))(index); },
      const_cast<void*>(static_cast<const void*>(&work)));
  parts_ = {};
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

void AddFeedForward(CpuWorker& k, const StepFeedForward& weights, int64_t rows,
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

void EmbedTokens(CpuWorker& k, const StepFrame& frame, int64_t rows, const int32_t* ids,
                 const float* const* positions, Rows x) {
  k.Embed({.rows = rows,
           .width = frame.width,
           .table = frame.embed,
           .tied = frame.embed == nullptr ? &frame.head : nullptr,
           .scale = frame.scale,
           .ids = ids,
           .positions = positions,
           .out = x});
}

void WriteLogits(CpuWorker& k, const StepFrame& frame, ConstRows x,
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
