// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "model/program/cpu/cpu_passes.h"
#include "model/program/cpu/cpu_walk.h"
#include "model/program/step/operation_pass.h"

namespace mnemon {
namespace {

// Scores of a row and head at positions of one block, to which Attend applies the
// softmax.
void ScoreBlock(const AttendCall& call, int64_t row, int64_t head, Part positions,
                float* out) {
  const KeyRange& range = call.key_ranges[row];
  const float* const query = call.query.row(row) + call.QueryAt(head);
  const int64_t place = positions.begin % kBlockPositions, count = positions.size();
  const float* const block =
      range.blocks[positions.begin / kBlockPositions - range.base] + place;
  const int64_t distance = range.query - positions.begin;
  // Row of the first position; tables advance row by row with positions.
  const int64_t table_row = call.zero_row - distance;
  double sums[kBlockPositions] = {};
  for (int64_t i = 0; i < call.width; ++i) {
    const int64_t at = head * call.width + i;
    const double q = query[i];
    const float* const key =
        block + call.key_offset + (call.KeptAt(head) + i) * kBlockPositions;
    for (int64_t c = 0; c < count; ++c) sums[c] += q * key[c];
    if (call.relative_key == nullptr) continue;
    const float* const relative = call.relative_key + at * call.table_rows + table_row;
    for (int64_t c = 0; c < count; ++c) sums[c] += q * relative[c];
  }
  for (int64_t c = 0; c < count; ++c) {
    double score = sums[c];
    if (call.fold_offset >= 0) {
      score += block[call.fold_offset + head * kBlockPositions + c];
    }
    if (call.relative_bias != nullptr) {
      score += call.relative_bias[head * call.table_rows + table_row + c];
    }
    score *= call.scale;
    if (call.cap > 0) score = call.cap * std::tanh(score);
    if (call.slopes != nullptr) {
      score -= double{call.slopes[head]} * static_cast<double>(distance - c);
    }
    out[c] = static_cast<float>(score);
  }
}

// Norm of a - b, or of a if b is null.
float FrobeniusNorm(const float* a, const float* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double x = b == nullptr ? a[i] : double{a[i]} - b[i];
    sum += x * x;
  }
  return static_cast<float>(std::sqrt(sum));
}

// Computes by operation and, after each, views what it has read and written. Each
// worker views its heads.
class Viewing {
 public:
  Viewing(const StepProgram& program, std::span<const RowView> views, CpuWorker& worker)
      : program_(program), views_(views), k_(worker), pass_(program, worker) {}

  Rows x() const { return pass_.x(); }

  void Begin(const WaveView& wave, const StepBuffers& buffers, bool twice) {
    // Only rows of the first wave have views.
    if (std::exchange(begun_, true)) views_ = {};
    wave_ = wave;
    at_ = buffers;
    attention_ = fast_ = 0;
    layer_ = 0;
    pass_.Begin(wave, buffers, twice);
  }

  void BeginLayer() {
    pass_.BeginLayer();
    left_ = program_.layers[layer_++].size();
  }

  void operator()(const AttentionOp& op) {
    pass_(op);
    const AttendCall call = CallOf(op, wave_, at_.projected, at_.mixed);
    for (const RowView& view : views_) Weights(call, view);
    ++attention_;
    End();
  }

  void operator()(const FastWeightsOp& op) {
    const FastWeightCall& call = op.call;
    const int64_t head = call.map.features(call.width) * call.width;
    const Part heads{k_.share().begin(call.heads), k_.share().end(call.heads)};
    for (const RowView& view : views_) {
      const float* const w = view.fixed + call.state_offset;
      if (view.to->update_norms == nullptr) continue;
      std::copy(w + heads.begin * head, w + heads.end * head,
                view.to->before + heads.begin * head);
    }
    pass_(op);
    for (const RowView& view : views_) {
      const StepView& to = *view.to;
      for (int64_t h = heads.begin; h < heads.end; ++h) {
        const float* const w = view.fixed + call.state_offset + h * head;
        const int64_t at = fast_ * call.heads + h;
        if (to.update_norms != nullptr) {
          to.update_norms[at] = FrobeniusNorm(w, to.before + h * head, head);
        }
        if (to.state_norms != nullptr) {
          to.state_norms[at] = FrobeniusNorm(w, nullptr, head);
        }
      }
    }
    ++fast_;
    End();
  }

  void operator()(const FeedForwardOp& op) {
    pass_(op);
    End();
  }

  void operator()(const RememberOp& op) { pass_(op); }

 private:
  void Weights(const AttendCall& call, const RowView& view) {
    const StepView& to = *view.to;
    if (to.weights == nullptr) return;
    const Rows all{to.weights + attention_ * call.heads * to.positions, to.positions};
    const int64_t first = call.key_ranges[view.row].first;
    const int64_t end = first + to.positions;
    for (int64_t h = k_.share().begin(call.heads); h < k_.share().end(call.heads);
         ++h) {
      for (int64_t p = first; p < end;) {
        const int64_t next = (p / kBlockPositions + 1) * kBlockPositions;
        const Part some{p, std::min(next, end)};
        ScoreBlock(call, view.row, h, some, all.row(h) + p - first);
        p = some.end;
      }
    }
    // Divided like the heads above.
    k_.Softmax({.rows = call.heads, .keys = to.positions, .scores = all});
  }

  // Ends a sub-layer.
  void End() {
    if (--left_ > 0 || layer_ < program_.layers.size()) return;
    for (const RowView& view : views_) {
      if (view.to->hidden_state == nullptr) continue;
      k_.Norm({.rows = 1,
               .width = program_.width,
               .in = {x().row(view.row), 0},
               .norm = program_.logits.norm,
               .out = {view.to->hidden_state, 0}});
    }
  }

  const StepProgram& program_;
  std::span<const RowView> views_;
  CpuWorker& k_;
  OperationPass<CpuWorker> pass_;
  WaveView wave_;
  StepBuffers at_;
  bool begun_ = false;
  int64_t attention_ = 0, fast_ = 0;  // finished blocks of each kind
  size_t layer_ = 0;                  // started layers
  size_t left_ = 0;                   // remaining sub-layers of the last layer
};

}  // namespace

void PassWithViews(const StepProgram& program, const StepRows& rows,
                   std::span<const RowView> views, CpuBuffers& buffers,
                   CpuWorker& worker, float* logits) {
  Viewing viewing(program, views, worker);
  Walk(
      program, rows, buffers.last, worker, viewing,
      [&](const StepRows::Wave& wave) {
        viewing.Begin(rows.view(wave), buffers.views(wave.rows),
                      rows.one_session_twice);
      },
      logits);
}

}  // namespace mnemon
