// SPDX-License-Identifier: MIT
#include "model/compute/packed_weights.h"
#include "model/program/cpu/cpu_passes.h"
#include "model/program/cpu/cpu_walk.h"

namespace mnemon {
namespace {

// A worker computes a group of heads from its queries to its slices of the output
// projection, and a slice of the feed-forward from in to out, without waiting; then all
// synchronise, and each adds all parts for itself.
class Heads {
 public:
  explicit Heads(const HeadPass& pass) : p_(pass), program_(pass.program) {}

  Rows x() const { return own_.Level(level_); }

  void Begin(const StepRows::Wave& wave) {
    wave_ = p_.rows.view(wave);
    own_ = p_.own.views(wave.rows);
    shared_ = p_.shared.views(wave.rows);
    level_ = 0;
    rises_ = false;
    p_.alone.Embed(CallOf(program_, wave_, x()));
  }

  void BeginLayer() { rises_ = program_.remember.has_value(); }

  void operator()(const AttentionOp& op) {
    const Rows before = Input(), projected = shared_.projected;
    const AttendCall attend = CallOf(op, wave_, projected, shared_.mixed);
    const int64_t count = attend.heads / attend.sharing;
    const Part groups = p_.OwnOf(count);
    if (groups.size() > 0) {
      Project(op.norm, op.project, groups, op.group_stride, before, projected);
      if (op.turns) p_.alone.Turn(GroupsOf(TurnOf(op, wave_, projected), groups));
      if (op.appends) {
        p_.alone.Append(GroupsOf(AppendOf(op, wave_, projected), groups));
      }
      p_.alone.Attend(GroupsOf(attend, groups));
    }
    Add(op.output, count, shared_.mixed, before, op.end.scale, attend.key_ranges);
  }

  void operator()(const FastWeightsOp& op) {
    const Rows projected = shared_.projected, mixed = shared_.mixed;
    const bool delta = op.gate.outputs > 0;
    const Rows beta = delta ? own_.beta : Rows{};
    const Rows before = Input();
    const Part heads = p_.OwnOf(op.call.heads);
    if (heads.size() > 0) {
      Project(op.norm, op.project, heads, op.head_stride, before, projected);
      if (delta) {
        const Part panels{heads.begin / kPanel, (heads.end + kPanel - 1) / kPanel};
        p_.alone.Linear({.rows = wave_.rows,
                         .in = before,
                         .norm = op.norm,
                         .weights = PanelsOf(op.gate, panels),
                         .act = Act::kSigmoid,
                         .out = {beta.data + panels.begin * kPanel, beta.stride}});
      }
      p_.alone.FastWeights(HeadsOf(CallOf(op, wave_, projected, beta, mixed), heads));
    }
    Add(op.output, op.call.heads, mixed, before, op.end.scale, nullptr);
  }

  void operator()(const FeedForwardOp& op) {
    const Part slices = p_.OwnOf(op.out.slices());
    const Rows before = Input(), hidden = shared_.hidden;
    if (slices.size() > 0) {
      // Slices are whole panels, except for the last.
      const bool last = slices.end == op.out.slices();
      const Part panels{
          slices.begin * op.out.slice / kPanel,
          last ? op.in.panel_count() : slices.end * op.out.slice / kPanel};
      const MatrixView factor =
          op.factor.outputs > 0 ? PanelsOf(op.factor, panels) : MatrixView{};
      p_.alone.Linear({.rows = wave_.rows,
                       .in = before,
                       .norm = op.norm,
                       .weights = PanelsOf(op.in, panels),
                       .act = op.act,
                       .gate = factor.outputs > 0 ? &factor : nullptr,
                       .out = {hidden.data + panels.begin * kPanel, hidden.stride}});
    }
    Add(op.out, op.out.slices(), hidden, before, op.end.scale, nullptr);
  }

  void operator()(const RememberOp& op) {
    const Part heads = p_.OwnOf(op.appends[0].heads);
    if (heads.size() == 0) return;
    const Rows memory = own_.memory, maps = shared_.maps;
    p_.alone.Mix(CallOf(op, program_, wave_.rows, own_, memory));
    Project({}, op.maps, heads, op.head_stride, memory, maps);
    for (size_t l = 0; l < op.appends.size(); ++l) {
      p_.alone.Append(GroupsOf(AppendOf(op, l, wave_, maps), heads));
    }
  }

 private:
  // See OperationPass.
  Rows Input() {
    const Rows before = x();
    level_ += rises_;
    rises_ = false;
    return before;
  }

  // Outputs of the worker's groups, `stride` each, of a matrix that holds them by
  // group.
  void Project(const NormView& norm, const MatrixView& matrix, Part groups,
               int64_t stride, Rows in, Rows projected) {
    const Part panels{groups.begin * stride / kPanel, groups.end * stride / kPanel};
    p_.alone.Linear(
        {.rows = wave_.rows,
         .in = in,
         .norm = norm,
         .weights = PanelsOf(matrix, panels),
         .out = {projected.data + panels.begin * kPanel, projected.stride}});
  }

  // Multiplies the slices of the worker's units, of `units` with equally many slices,
  // waits for the others, and adds all parts to x.
  void Add(const MatrixView& matrix, int64_t units, Rows in, Rows before, float scale,
           const KeyRange* key_ranges) {
    // Others may still be reading the parts of the previous sub-layer.
    CpuParts& parts = p_.parts[turn_];
    turn_ = 1 - turn_;
    // Worker 0 adds its slices up, the others keep theirs apart.
    const int64_t each = matrix.slices() / units, first = p_.FirstOf(units).end * each;
    const Part own{p_.OwnOf(units).begin * each, p_.OwnOf(units).end * each};
    const Rows all = parts.rows.rows();
    const int64_t stride = parts.stride();
    const Rows scales = parts.scales.rows();
    if (own.size() > 0) {
      const bool is_first = own.begin == 0;
      const int64_t part = is_first ? 0 : 1 + own.begin - first;
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
                   .parts = 1 + matrix.slices() - first,
                   .part_stride = stride,
                   .bias = matrix.bias,
                   .scales = matrix.scales,
                   .part_scales = scales,
                   .residual = before,
                   .scale = scale,
                   .key_ranges = key_ranges,
                   .out = x()});
  }

  const HeadPass& p_;
  const StepProgram& program_;
  WaveView wave_;
  StepBuffers own_, shared_;
  int64_t level_ = 0;
  bool rises_ = false;
  int turn_ = 0;
};

}  // namespace

void PassByHead(const HeadPass& pass, float* logits) {
  Heads heads(pass);
  Walk(
      pass.program, pass.rows, pass.shared.last, pass.together, heads,
      [&](const StepRows::Wave& wave) { heads.Begin(wave); }, logits);
}

}  // namespace mnemon
