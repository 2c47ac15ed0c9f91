// SPDX-License-Identifier: MIT
#include "bench/floor.h"

#include <algorithm>
#include <string_view>

#include "model/steps/step_weights.h"
#include "model/weights/tensor_names.h"

namespace mnemon {
namespace {

constexpr int64_t kFloat = sizeof(float);

bool IsFeedback(const ModelConfig& c) { return c.architecture == "feedback"; }
bool IsShared(const ModelConfig& c) {
  return IsFeedback(c) && c.projection == Projection::kShared;
}

// Stored positions that the query after `context` tokens sees.
int64_t Seen(const ModelConfig& c, int64_t context) {
  if (c.architecture == "fast_weights") return 0;
  if (c.architecture == "transformer_xl") return std::min(context, c.mem_len);
  return context;
}

// Some matrices together.
struct MatrixWork {
  int64_t bytes = 0, weights = 0, int8 = 0;

  void Add(const MatrixShape& matrix) {
    bytes += matrix.bytes();
    weights += matrix.weights();
    if (matrix.format == WeightFormat::kInt8) int8 += matrix.weights();
  }
};

MatrixWork HeadMatrix(const ModelConfig& c, WeightFormat format) {
  MatrixWork head;
  head.Add(Matrices(c, format).back());
  return head;
}

// The matrices of all layers, and what is multiplied outside them but for the head.
MatrixWork BodyMatrices(const ModelConfig& c, WeightFormat format) {
  std::vector<MatrixShape> matrices = Matrices(c, format);
  matrices.pop_back();
  MatrixWork all;
  for (const MatrixShape& matrix : matrices) all.Add(matrix);
  return all;
}

int64_t HeadBias(const ModelConfig& c) { return c.tie_head ? 0 : c.vocab; }

// Biases, norms and mixing weights that every token meets.
int64_t Vectors(const ModelConfig& c) {
  const int64_t d = c.d_model;
  int64_t attention_biases = 2 * d;  // value and output
  if (c.architecture == "causal") attention_biases = 4 * d;
  if (c.architecture == "fast_weights" || IsShared(c)) attention_biases = d;
  // fast_weights never applies its first norm.
  const int64_t norms = (c.architecture == "fast_weights" ? 1 : 2) * 2 * d;
  const int64_t feed_forward = (c.gated ? 2 : 1) * c.d_ff + d;
  int64_t all = c.layers * (attention_biases + norms + feed_forward) + 2 * d;
  if (IsFeedback(c)) all += c.layers + 1;
  return all;
}

// Relative positions of `rows` distances, in all layers: keys, biases, query bias.
int64_t PositionRows(const ModelConfig& c, int64_t rows) {
  if (c.position_kind != PositionKind::kRelative) return 0;
  const bool tied = IsFeedback(c) && c.position_bias == PositionBias::kTied;
  return c.layers * (rows * (c.d_model + (tied ? 0 : c.heads)) + c.d_model);
}

// A feedback query never sees itself, the others do.
int64_t Distances(const ModelConfig& c, int64_t seen) {
  return IsFeedback(c) ? seen : seen + 1;
}

// Floats that a token adds to the state, or that a fixed state has.
int64_t AppendedFloats(const ModelConfig& c) {
  return 2 * c.d_model * (IsShared(c) ? 1 : c.layers);
}
int64_t FixedFloats(const ModelConfig& c) {
  const int64_t features = c.features();
  const int64_t z = c.normalise == Normalise::kZ ? c.heads * features : 0;
  return c.layers * (c.d_model * features + z);
}

// State floats that one step moves.
int64_t MovedFloats(const ModelConfig& c, int64_t seen) {
  if (c.architecture == "fast_weights") return 2 * FixedFloats(c);
  return 2 * c.d_model * c.layers * seen + AppendedFloats(c);
}

// The row of the embedding, unless the head reads them all, and of absolute positions.
int64_t InputFloats(const ModelConfig& c, WeightFormat format) {
  const bool read_anyway = c.tie_head && format == WeightFormat::kFp32;
  const int64_t rows =
      (read_anyway ? 0 : 1) + (c.position_kind == PositionKind::kLearned ? 1 : 0);
  return c.d_model * rows;
}

}  // namespace

int64_t MatrixShape::bytes() const {
  switch (format) {
    case WeightFormat::kFp32:
      return 4 * weights();
    case WeightFormat::kBf16:
      return 2 * weights();
    case WeightFormat::kInt8:
      return weights() + kFloat * outputs;
  }
  return 0;
}

std::vector<MatrixShape> Matrices(const ModelConfig& c, WeightFormat format) {
  const int64_t d = c.d_model;
  std::vector<MatrixShape> all;
  const auto add = [&](int64_t outputs, int64_t inputs, std::string_view base = {},
                       int64_t slice = 0) {
    all.push_back({.outputs = outputs,
                   .inputs = inputs,
                   .slice = slice,
                   .format = MatrixFormat(c, format, base, inputs, slice)});
  };
  for (int64_t i = 0; i < c.layers; ++i) {
    // Keys and values of a feedback memory are made once for all layers.
    add((IsFeedback(c) ? 1 : 3) * d, d, names::kQuery);
    if (c.architecture == "fast_weights" && c.update_rule == UpdateRule::kDelta) {
      add(c.heads, d, names::kGate);
    }
    add(d, d, names::kOutput, c.head_width());
    if (c.gated) add(c.d_ff, d);
    add(c.d_ff, d);
    add(d, c.d_ff);
  }
  if (IsFeedback(c)) add(2 * d * (IsShared(c) ? 1 : c.layers), d);
  add(c.vocab, d);
  return all;
}

Work StepWork(const ModelConfig& c, int64_t context, WeightFormat format) {
  const int64_t seen = Seen(c, context);
  const MatrixWork body = BodyMatrices(c, format), head = HeadMatrix(c, format);
  const int64_t vectors =
      Vectors(c) + HeadBias(c) + PositionRows(c, Distances(c, seen));
  return {.weight_bytes = body.bytes + head.bytes + kFloat * vectors,
          .state_bytes = kFloat * (MovedFloats(c, seen) + InputFloats(c, format)),
          .multiplied = body.weights + head.weights,
          .int8 = body.int8 + head.int8};
}

Work PromptWork(const ModelConfig& c, int64_t tokens, WeightFormat format) {
  const MatrixWork body = BodyMatrices(c, format), last = HeadMatrix(c, format);
  const int64_t head = last.bytes + kFloat * HeadBias(c);
  Work work{.multiplied = tokens * body.weights + last.weights,
            .int8 = tokens * body.int8 + last.int8};
  if (IsFeedback(c)) {
    for (int64_t t = 0; t < tokens; ++t) {
      const Work step = StepWork(c, t, format);
      work.weight_bytes += step.weight_bytes - head;
      work.state_bytes += step.state_bytes;
    }
    work.weight_bytes += head;
    return work;
  }
  const int64_t distances = Seen(c, tokens - 1) + 1;
  const bool fixed = c.architecture == "fast_weights";
  const int64_t kept = c.architecture == "transformer_xl" ? Seen(c, tokens) : tokens;
  work.weight_bytes =
      body.bytes + head + kFloat * (Vectors(c) + PositionRows(c, distances));
  work.state_bytes = kFloat * ((fixed ? FixedFloats(c) : kept * AppendedFloats(c)) +
                               tokens * InputFloats(c, format));
  return work;
}

double Floor::seconds() const { return std::max(bytes_seconds, flop_seconds); }

double OperationsOf(const Work& work, int64_t batch) {
  return 2.0 * static_cast<double>(work.multiplied) * static_cast<double>(batch);
}

Floor FloorOf(const Work& work, int64_t batch, const Ceiling& ceiling) {
  const Work wide = {.multiplied = work.multiplied - work.int8};
  const Work int8 = {.multiplied = work.int8};
  double seconds = OperationsOf(wide, batch) / ceiling.flops_per_second;
  if (work.int8 > 0) seconds += OperationsOf(int8, batch) / ceiling.int8_per_second;
  return {.bytes_seconds = WorkingSet(work, batch) / ceiling.bytes_per_second,
          .flop_seconds = seconds};
}

int64_t WorkingSet(const Work& work, int64_t batch) {
  return work.weight_bytes + batch * work.state_bytes;
}

}  // namespace mnemon
