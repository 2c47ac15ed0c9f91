// SPDX-License-Identifier: MIT
#include "train/report/memory_figures.h"

#include <algorithm>
#include <span>
#include <utility>

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "base/status_macros.h"
#include "base/strings.h"
#include "model/families/families.h"
#include "model/sequence/load.h"
#include "model/sequence/model.h"
#include "train/data/id_tensor.h"
#include "train/report/chart.h"
#include "train/report/distance_weights.h"
#include "train/report/heat_map.h"
#include "train/report/validation_stretch.h"

namespace mnemon {
namespace {

// More labels could not be read.
constexpr int64_t kMapTokens = 40;
constexpr int64_t kMostWindows = 8;
// Smaller weights are drawn as this one.
constexpr double kLeastWeight = 1e-5;

using Groups = std::vector<FigureGroup>;

std::vector<std::string> Labels(const ValidationStretch& stretch, int64_t count) {
  std::vector<std::string> labels;
  const Batch& window = stretch.windows.back();
  for (int64_t i = 0; i < count; ++i) labels.push_back(stretch.Label(window.inputs[i]));
  return labels;
}

std::string NameOf(const char* kind, int64_t layer, int64_t head) {
  return StrCat(kind, "-layer-", layer + 1,
                head < 0 ? std::string("-mean") : StrCat("-head-", head + 1));
}

// map [H, T, J], CPU floats: the mean of the heads and each of them, over the first
// `count` tokens.
std::vector<Figure> DrawHeads(const at::Tensor& map, int64_t layer,
                              const std::vector<std::string>& labels,
                              const char* column_name) {
  const auto count = static_cast<int64_t>(labels.size()), heads = map.size(0);
  const at::Tensor part = map.narrow(1, 0, count).narrow(2, 0, count);
  std::vector<Figure> figures;
  const auto draw = [&](const at::Tensor& weights, int64_t head) {
    const at::Tensor flat = weights.contiguous();
    const std::string what =
        head < 0 ? std::string("mean of the heads") : StrCat("head ", head + 1);
    figures.push_back(
        {.name = NameOf("attention", layer, head),
         .svg = DrawHeatMap({.title = StrCat("Layer ", layer + 1, ", ", what),
                             .row_name = "query token",
                             .column_name = column_name,
                             .rows = labels,
                             .columns = labels,
                             .weights = {flat.data_ptr<float>(),
                                         static_cast<size_t>(flat.numel())}})});
  };
  if (heads > 1) draw(part.mean(0), -1);
  for (int64_t head = 0; head < heads; ++head) draw(part[head], head);
  return figures;
}

// map [H, T, J], contiguous: a line per head.
Figure DrawDistances(const at::Tensor& map, int64_t layer, int64_t nearest) {
  Chart chart{.title = StrCat("Layer ", layer + 1, ": weight, log scale"),
              .x_label = "distance in tokens",
              .logarithmic = true};
  for (int64_t head = 0; head < map.size(0); ++head) {
    const at::Tensor weights = map[head];
    const std::vector<double> means = MeanByDistance(
        {weights.data_ptr<float>(), static_cast<size_t>(weights.numel())}, map.size(2));
    ChartSeries series{.name = StrCat("head ", head + 1),
                       .points = {},
                       .style = StyleOfLine(static_cast<size_t>(head))};
    for (int64_t distance = nearest; distance < map.size(2); ++distance) {
      series.points.push_back(
          {static_cast<double>(distance), std::max(kLeastWeight, means[distance])});
    }
    chart.series.push_back(std::move(series));
  }
  return {.name = StrCat("distance-layer-", layer + 1), .svg = DrawChart(chart)};
}

at::Tensor Ids(const Batch& window) {
  return IdTensor(window.inputs.data(), 1, window.columns);
}

// The maps of the last window, each [H, T, J], with the memory of those before it.
absl::StatusOr<std::vector<at::Tensor>> LastMaps(const Model& model,
                                                 const std::vector<Batch>& windows) {
  Carry carry;
  for (size_t i = 0;; ++i) {
    const bool last = i + 1 == windows.size();
    if (windows[i].fresh) carry = {};
    MNEMON_ASSIGN_OR_RETURN(
        ForwardResult result,
        model.Forward(Ids(windows[i]), carry,
                      {.maps = last ? AttentionMaps::kUsed : AttentionMaps::kNone}));
    carry = std::move(result.carry);
    if (!last) continue;
    for (at::Tensor& map : result.maps) map = map[0].contiguous();
    return std::move(result.maps);
  }
}

absl::StatusOr<Groups> DrawAttentionFigures(const LoadedModel& loaded,
                                            const ValidationStretch& stretch) {
  MNEMON_ASSIGN_OR_RETURN(const std::vector<at::Tensor> maps,
                          LastMaps(*loaded.model, stretch.windows));
  const bool encoder = loaded.description.whole_sequences;
  const bool feedback = loaded.description.memory.has_value();
  const auto count = std::min(kMapTokens, stretch.windows.back().columns);
  const std::vector<std::string> labels = Labels(stretch, count);
  Groups groups;
  FigureGroup distances{
      .title = "Attention over distance",
      .text =
          "How much the heads look at tokens so far back: the mean over the queries "
          "that can see that far. Weights below 0.00001 are drawn there.",
      .figures = {}};
  for (size_t i = 0; i < maps.size(); ++i) {
    const auto layer = static_cast<int64_t>(i);
    if (encoder || feedback) {
      const char* const text =
          encoder ? "What each position of a validation sequence looks at."
                  : "How much each token of the validation data looks at the memory of "
                    "those "
                    "before it. The memory is empty at the first token.";
      groups.push_back(
          {.title =
               StrCat(encoder ? "Attention of every head" : "Attention over memory",
                      ", layer ", layer + 1),
           .text = layer == 0 ? text : "",
           .figures = DrawHeads(maps[i], layer, labels,
                                encoder ? "key token" : "remembered token"),
           .charts = false});
    }
    // A memory is made after its token: there is none at distance 0.
    if (!encoder) {
      distances.figures.push_back(DrawDistances(maps[i], layer, feedback ? 1 : 0));
    }
  }
  if (!encoder) groups.push_back(std::move(distances));
  return groups;
}

// Fast weights of a model, and where their W stands in its carry.
struct FastBlock {
  size_t layer = 0, entry = 0;
  int64_t heads = 0;
};

std::vector<FastBlock> FastBlocks(const ModelDescription& model) {
  std::vector<FastBlock> blocks;
  const DescribedState carry = CarryOf(model);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    for (size_t j = 0; j < model.layers[i].size(); ++j) {
      const auto* fast = std::get_if<FastWeights>(&model.layers[i][j].block);
      if (fast != nullptr) blocks.push_back({i, carry.first[i][j], fast->heads});
    }
  }
  return blocks;
}

absl::StatusOr<Groups> DrawNorms(const LoadedModel& loaded,
                                 const ValidationStretch& stretch) {
  const Batch& window = stretch.windows.front();
  const std::vector<FastBlock> blocks = FastBlocks(loaded.description);
  // [T] of each head of each block.
  std::vector<std::vector<std::vector<float>>> norms(blocks.size());
  for (size_t b = 0; b < blocks.size(); ++b) {
    norms[b].resize(static_cast<size_t>(blocks[b].heads));
  }
  Carry carry;
  for (int64_t t = 0; t < window.columns; ++t) {
    MNEMON_ASSIGN_OR_RETURN(
        ForwardResult result,
        loaded.model->Forward(IdTensor(window.inputs.data() + t, 1, 1), carry));
    carry = std::move(result.carry);
    for (size_t b = 0; b < blocks.size(); ++b) {
      const at::Tensor norm = carry.tensors[blocks[b].entry][0].flatten(1).norm(2, 1);
      for (size_t h = 0; h < norms[b].size(); ++h) {
        norms[b][h].push_back(norm[static_cast<int64_t>(h)].item<float>());
      }
    }
  }
  FigureGroup group{.title = "Norms of the fast weights",
                    .text =
                        "The Frobenius norm of the matrix of each head after each "
                        "token of the validation data, from an empty memory.",
                    .figures = {}};
  for (size_t b = 0; b < blocks.size(); ++b) {
    const size_t layer = blocks[b].layer + 1;
    Chart chart{.title = StrCat("Layer ", layer, ": norm of W"), .x_label = "tokens"};
    for (size_t h = 0; h < norms[b].size(); ++h) {
      ChartSeries series{
          .name = StrCat("head ", h + 1), .points = {}, .style = StyleOfLine(h)};
      for (size_t t = 0; t < norms[b][h].size(); ++t) {
        series.points.push_back({static_cast<double>(t + 1), norms[b][h][t]});
      }
      chart.series.push_back(std::move(series));
    }
    group.figures.push_back(
        {.name = StrCat("norm-layer-", layer), .svg = DrawChart(chart)});
  }
  return Groups{std::move(group)};
}

absl::StatusOr<Groups> DrawGroups(const LoadedModel& loaded, const std::string& run) {
  const Attention* attention = FirstBlock<Attention>(loaded.description);
  StretchLimits limits;
  // The last window is shown; those before it fill the memory.
  if (attention != nullptr && attention->carries == Attention::Carries::kInputs) {
    limits.windows = kMostWindows;
  }
  MNEMON_ASSIGN_OR_RETURN(ValidationStretch stretch,
                          ReadValidationStretch(run, limits));
  if (attention == nullptr) return DrawNorms(loaded, stretch);
  return DrawAttentionFigures(loaded, stretch);
}

}  // namespace

MemoryFigures DrawMemoryFigures(const std::string& run) {
  const c10::AutoGradMode no_gradients(false);
  MemoryFigures figures;
  absl::StatusOr<LoadedModel> loaded = LoadCheckpoint(run);
  figures.fault = loaded.status();
  if (!loaded.ok()) return figures;
  figures.architecture =
      loaded->config ? TypedNameOf(*loaded->config) : loaded->architecture;
  figures.parameters = CountParameters(*loaded->model);
  absl::StatusOr<Groups> groups = DrawGroups(*loaded, run);
  figures.fault = groups.status();
  if (groups.ok()) figures.groups = *std::move(groups);
  return figures;
}

}  // namespace mnemon
