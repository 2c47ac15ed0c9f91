// SPDX-License-Identifier: MIT
#include "model/program/step/step_introspection.h"

#include <algorithm>
#include <cstddef>
#include <variant>

namespace mnemon {

StepIntrospection::StepIntrospection(const StepProgram& program) : program_(program) {
  fields_.hidden_state = true;
  for (const std::vector<SubLayerOp>& layer : program.layers) {
    for (const SubLayerOp& op : layer) {
      if (const auto* attention = std::get_if<AttentionOp>(&op)) {
        attention_.Add(attention->attend.heads);
      } else if (const auto* fast = std::get_if<FastWeightsOp>(&op)) {
        const FastWeightCall& call = fast->call;
        fast_.Add(call.heads);
        fast_floats_ = std::max(
            fast_floats_, call.heads * call.width * call.map.features(call.width));
      }
    }
  }
  fields_.memory_reads =
      attention_.even && attention_.layers > 0 && program.reaches.size() == 1;
  fields_.update_norms = fields_.state_norms = fast_.even && fast_.layers > 0;
}

std::span<const StepView> StepIntrospection::MakeViews(
    std::span<const Segment> segments) {
  views_.clear();
  int64_t updates = 0;
  for (const Segment& segment : segments) {
    if (segment.introspection == nullptr) continue;
    views_.push_back(ViewOf(segment.position, *segment.introspection));
    updates += views_.back().update_norms != nullptr;
  }
  const auto floats = static_cast<size_t>(updates * fast_floats_);
  if (before_.size() < floats) before_.resize(floats);
  float* before = before_.data();
  for (StepView& view : views_) {
    if (view.update_norms == nullptr) continue;
    view.before = before;
    before += fast_floats_;
  }
  return views_;
}

StepView StepIntrospection::ViewOf(int64_t position, Introspection& out) const {
  const auto room = [](std::vector<float>& values, bool wanted, int64_t count) {
    values.resize(wanted ? static_cast<size_t>(count) : 0);
    return values.empty() ? nullptr : values.data();
  };
  MemoryReads& reads = out.memory_reads;
  reads = {};
  if (out.fields.memory_reads) {
    reads.layers = attention_.layers;
    reads.heads = attention_.heads;
    reads.first_index = program_.FirstSeen(position);
    reads.positions =
        std::max<int64_t>(0, program_.LastSeen(position) - reads.first_index + 1);
  }
  StepView view;
  view.hidden_state = room(out.hidden_state, out.fields.hidden_state, program_.width);
  view.weights =
      room(reads.weights, out.fields.memory_reads, attention_.all() * reads.positions);
  view.positions = reads.positions;
  view.update_norms = room(out.update_norms, out.fields.update_norms, fast_.all());
  view.state_norms = room(out.state_norms, out.fields.state_norms, fast_.all());
  return view;
}

}  // namespace mnemon
