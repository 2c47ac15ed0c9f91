// SPDX-License-Identifier: MIT
#include "model/program/step/step_program.h"

#include <functional>
#include <set>
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

int64_t ReachOf(const Attention& attention) {
  return attention.window.value_or(INT64_MAX);
}

std::vector<int64_t> ReachesOf(const ModelDescription& model) {
  std::set<int64_t, std::greater<>> reaches;
  for (const std::vector<SubLayer>& layer : model.layers) {
    for (const SubLayer& sub : layer) {
      if (const auto* attention = std::get_if<Attention>(&sub.block)) {
        reaches.insert(ReachOf(*attention));
      }
    }
  }
  return {reaches.begin(), reaches.end()};
}

// Null without rotary positions.
const AngleTable* AnglesOf(const Attention& attention, int64_t context,
                           StepProgram& program) {
  if (attention.rotary() == nullptr) return nullptr;
  for (const auto& angles : program.angles) {
    if (angles->rotary == *attention.rotary()) return &angles->table;
  }
  const auto frequencies = FrequenciesOf(*attention.rotary());
  program.angles.push_back(std::make_unique<StepProgram::RotaryAngles>(
      *attention.rotary(), AngleTable(context, frequencies)));
  return &program.angles.back()->table;
}

}  // namespace

StepSizes SizesOf(const StepProgram& program) {
  Largest largest;
  ForSubLayers(program, [&](const auto& op) {
    largest(op);
    // The output of a block is kept here until it is normed.
    if (op.end.normed()) {
      largest.sizes.projected =
          std::max(largest.sizes.projected, Padded(program.width));
    }
  });
  return largest.sizes;
}

StepProgram MakeStepProgram(const ModelDescription& model, const DescribedState& state,
                            StepWeights& weights) {
  StepProgram program;
  program.width = model.width;
  program.logits = MakeLogits(model.head, weights);
  program.embed = MakeEmbed(model.embedding, model.head, program.logits, model.width,
                            model.context, weights);
  if (const Attention* attention = FirstBlock<Attention>(model)) {
    program.sees_itself = attention->sees != Attention::Sees::kMemory;
    program.reaches = ReachesOf(model);
  }
  std::vector<MemoryReading> readings;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    std::vector<SubLayerOp>& layer = program.layers.emplace_back();
    for (size_t j = 0; j < model.layers[i].size(); ++j) {
      const SubLayer& sub = model.layers[i][j];
      const std::string base = BaseOf(i, sub);
      const NormView norm = weights.Norm(base + ".norm", sub.norm);
      const size_t first = state.first[i][j];
      if (const auto* attention = std::get_if<Attention>(&sub.block)) {
        program.fewest_groups = std::min(program.fewest_groups, attention->groups);
        const AttentionEntries entries = EntriesOf(state, first);
        layer.emplace_back(MakeAttention(*attention, base,
                                         AnglesOf(*attention, model.context, program),
                                         norm, state.spec, entries, weights));
        std::get<AttentionOp>(layer.back()).attend.reach = static_cast<int32_t>(
            std::ranges::find(program.reaches, ReachOf(*attention)) -
            program.reaches.begin());
        readings.push_back({.attention = attention, .base = base, .entries = entries});
      } else if (const auto* fast = std::get_if<FastWeights>(&sub.block)) {
        program.fewest_groups = std::min(program.fewest_groups, fast->heads);
        layer.emplace_back(
            MakeFastWeights(*fast, base, norm, state.spec, first, weights));
      } else {
        layer.emplace_back(
            MakeFeedForward(std::get<FeedForward>(sub.block), base, norm, weights));
      }
      const SubLayerEndOp end = {
          .behind = weights.Norm(base + ".behind_norm", sub.behind),
          .after = weights.Norm(base + ".after_norm", sub.after),
          .scale = static_cast<float>(sub.scale)};
      if (end.normed()) program.fewest_groups = 0;
      std::visit([&](auto& op) { op.end = end; }, layer.back());
    }
  }
  if (model.memory) {
    program.remember = MakeRemember(*model.memory, readings, state.spec, weights);
  }
  return program;
}

}  // namespace mnemon
