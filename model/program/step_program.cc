// SPDX-License-Identifier: MIT
#include "model/program/step_program.h"

#include <string>

namespace mnemon {
namespace {

struct Largest {
  StepSizes sizes;

  void Heads(int64_t heads, int64_t width, const MatrixView& project) {
    sizes.projected = std::max(sizes.projected, project.outputs);
    sizes.heads = std::max(sizes.heads, heads);
    sizes.mixed = std::max(sizes.mixed, heads * width);
    sizes.slices = std::max(sizes.slices, heads);
  }
  void operator()(const AttentionOp& op) {
    Heads(op.attend.heads, op.attend.width, op.project);
  }
  void operator()(const FastWeightsOp& op) {
    Heads(op.call.heads, op.call.width, op.project);
    sizes.gate = std::max(sizes.gate, op.gate.outputs);
  }
  void operator()(const FeedForwardOp& op) {
    sizes.hidden = std::max(sizes.hidden, op.in.outputs);
    sizes.slices = std::max(sizes.slices, op.out.slices());
  }
};

AttentionEntries EntriesOf(const DescribedState& state, size_t first) {
  if (state.memory < 0) return {.key = first, .value = first + 1, .fold = first + 2};
  const auto memory = static_cast<size_t>(state.memory);
  return {.key = memory, .value = memory + 1, .fold = first};
}

}  // namespace

StepSizes SizesOf(const StepProgram& program) {
  Largest largest;
  ForSubLayers(program, [&](const auto& op) { largest(op); });
  return largest.sizes;
}

NormView MakeNorm(const SubLayer& sub, const std::string& base, StepWeights& weights) {
  return sub.norm == Norm::kLayer ? weights.Norm(base + ".norm") : NormView{};
}

StepProgram MakeStepProgram(const ModelDescription& model, const DescribedState& state,
                            StepWeights& weights) {
  StepProgram program;
  program.width = model.width;
  program.logits = MakeLogits(model.head, weights);
  program.embed = MakeEmbed(model.embedding, model.head, program.logits, model.width,
                            model.context, weights);
  if (const Attention* attention = FirstBlock<Attention>(model)) {
    // All see the same (CheckDescription).
    program.sees_itself = attention->sees != Attention::Sees::kMemory;
    if (attention->window) program.reach = *attention->window;
  }
  std::vector<MemoryReading> readings;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    std::vector<SubLayerOp>& layer = program.layers.emplace_back();
    for (size_t j = 0; j < model.layers[i].size(); ++j) {
      const SubLayer& sub = model.layers[i][j];
      const std::string base = BaseOf(i, sub);
      const NormView norm = MakeNorm(sub, base, weights);
      const size_t first = state.first[i][j];
      if (const auto* attention = std::get_if<Attention>(&sub.block)) {
        program.fewest_groups = std::min(program.fewest_groups, attention->groups);
        const AttentionEntries entries = EntriesOf(state, first);
        layer.emplace_back(
            MakeAttention(*attention, base, norm, state.spec, entries, weights));
        readings.push_back({.attention = attention, .base = base, .entries = entries});
      } else if (const auto* fast = std::get_if<FastWeights>(&sub.block)) {
        program.fewest_groups = std::min(program.fewest_groups, fast->heads);
        layer.emplace_back(
            MakeFastWeights(*fast, base, norm, state.spec, first, weights));
      } else {
        layer.emplace_back(
            MakeFeedForward(std::get<FeedForward>(sub.block), base, norm, weights));
      }
    }
  }
  if (model.memory) {
    program.remember = MakeRemember(*model.memory, readings, state.spec, weights);
  }
  return program;
}

}  // namespace mnemon
