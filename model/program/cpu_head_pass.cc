// SPDX-License-Identifier: MIT
#include "model/kernels/packed_weights.h"
#include "model/program/cpu_passes.h"
#include "model/program/cpu_walk.h"

namespace mnemon {
namespace {

// A head goes from its query to its slice of the output projection, and a slice of the
// feed-forward from in to out, without meeting other workers; then all meet, and each
// adds all parts up for itself.
class Heads {
 public:
  explicit Heads(const HeadPass& pass)
      : p_(pass), program_(pass.program), heads_(pass.part.heads) {}

  Rows x() const { return own_.Level(level_); }

  void Begin(const StepRows::Wave& wave) {
    wave_ = p_.rows.view(wave);
    own_ = p_.own.views(wave.rows);
    shared_ = p_.shared.views(wave.rows);
    level_ = 0;
    p_.alone.Embed(CallOf(program_, wave_, x()));
  }

  void operator()(const AttentionOp& op) {
    const Rows before = x(), projected = shared_.projected;
    if (program_.remember) ++level_;
    const AttendCall attend = CallOf(op, wave_, projected, shared_.mixed);
    if (heads_.size() > 0) {
      Project(op.norm, op.project, op.head_stride, before, projected);
      if (op.appends) {
        p_.alone.Append(HeadsOf(AppendOf(op, wave_, projected), heads_));
      }
      p_.alone.Attend(HeadsOf(attend, heads_));
    }
    Add(op.output, shared_.mixed, heads_, p_.first_heads, p_.parts[0], before,
        attend.key_ranges);
  }

  void operator()(const FastWeightsOp& op) {
    const Rows projected = shared_.projected, mixed = shared_.mixed;
    const bool delta = op.gate.outputs > 0;
    const Rows beta = delta ? own_.beta : Rows{};
    if (heads_.size() > 0) {
      Project({}, op.project, op.head_stride, x(), projected);
      if (delta) {
        const Part panels{heads_.begin / kPanel, (heads_.end + kPanel - 1) / kPanel};
        p_.alone.Linear({.rows = wave_.rows,
                         .in = x(),
                         .weights = PanelsOf(op.gate, panels),
                         .act = Act::kSigmoid,
                         .out = {beta.data + panels.begin * kPanel, beta.stride}});
      }
      p_.alone.FastWeights(HeadsOf(CallOf(op, wave_, projected, beta, mixed), heads_));
    }
    Add(op.output, mixed, heads_, p_.first_heads, p_.parts[0], x(), nullptr);
  }

  void operator()(const FeedForwardOp& op) {
    const Part slices = p_.part.slices;
    const Rows hidden = shared_.hidden;
    if (slices.size() > 0) {
      // Slices are whole panels, but for the last one.
      const bool last = slices.end == op.out.slices();
      const Part panels{
          slices.begin * op.out.slice / kPanel,
          last ? op.in.panel_count() : slices.end * op.out.slice / kPanel};
      const MatrixView factor =
          op.factor.outputs > 0 ? PanelsOf(op.factor, panels) : MatrixView{};
      p_.alone.Linear({.rows = wave_.rows,
                       .in = x(),
                       .norm = op.norm,
                       .weights = PanelsOf(op.in, panels),
                       .act = op.act,
                       .gate = factor.outputs > 0 ? &factor : nullptr,
                       .out = {hidden.data + panels.begin * kPanel, hidden.stride}});
    }
    Add(op.out, hidden, slices, p_.first_slices, p_.parts[1], x(), nullptr);
  }

  void operator()(const RememberOp& op) {
    if (heads_.size() == 0) return;
    const Rows memory = own_.memory, maps = shared_.maps;
    p_.alone.Mix(CallOf(op, program_, wave_.rows, own_, memory));
    Project({}, op.maps, op.head_stride, memory, maps);
    for (size_t l = 0; l < op.appends.size(); ++l) {
      p_.alone.Append(HeadsOf(AppendOf(op, l, wave_, maps), heads_));
    }
  }

 private:
  // The own heads' outputs of a matrix that has them side by side.
  void Project(const NormView& norm, const MatrixView& matrix, int64_t head_stride,
               Rows in, Rows projected) {
    const Part panels{heads_.begin * head_stride / kPanel,
                      heads_.end * head_stride / kPanel};
    p_.alone.Linear(
        {.rows = wave_.rows,
         .in = in,
         .norm = norm,
         .weights = PanelsOf(matrix, panels),
         .out = {projected.data + panels.begin * kPanel, projected.stride}});
  }

  // Multiplies the own slices, meets the others, and adds all of them to x.
  void Add(const MatrixView& matrix, Rows in, Part own, Part first, CpuParts& parts,
           Rows before, const KeyRange* key_ranges) {
    const Rows all = parts.rows.rows();
    const int64_t stride = parts.stride();
    const Rows scales = parts.scales.rows();
    if (own.size() > 0) {
      const bool is_first = own.begin == 0;
      const int64_t part = is_first ? 0 : 1 + own.begin - first.end;
      p_.alone.Parts(
          {.rows = wave_.rows,
           .in = in,
           .weights = matrix,
           .slices = own,
           .each = !is_first,
           .part_stride = stride,
           .out = {all.data + part * stride, all.stride},
           .scales = {scales.data + (is_first ? 0 : part - 1), scales.stride}});
    }
    p_.together.Sync();
    p_.alone.Fold({.rows = wave_.rows,
                   .width = program_.width,
                   .in = all,
                   .parts = 1 + matrix.slices() - first.end,
                   .part_stride = stride,
                   .bias = matrix.bias,
                   .scales = matrix.scales,
                   .part_scales = scales,
                   .residual = before,
                   .key_ranges = key_ranges,
                   .out = x()});
  }

  const HeadPass& p_;
  const StepProgram& program_;
  const Part heads_;
  WaveView wave_;
  StepBuffers own_, shared_;
  int64_t level_ = 0;
};

}  // namespace

void PassByHead(const HeadPass& pass, float* logits) {
  Heads heads(pass);
  Walk(
      pass.program, pass.rows, pass.shared.last, pass.together, heads,
      [&](const StepRows::Wave& wave) { heads.Begin(wave); }, logits);
}

}  // namespace mnemon
