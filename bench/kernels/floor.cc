// SPDX-License-Identifier: MIT
#include "bench/kernels/floor.h"

#include <algorithm>

#include "model/compute/packed_weights.h"

namespace mnemon {
namespace {

constexpr int64_t kFloat = sizeof(float);

// Calls each(sub-layer, its attention) for all blocks of attention.
template <class Each>
void ForAttention(const ModelDescription& model, const Each& each) {
  for (const std::vector<SubLayer>& layer : model.layers) {
    for (const SubLayer& sub : layer) {
      if (const auto* attention = std::get_if<Attention>(&sub.block)) each(*attention);
    }
  }
}

bool SharesMemory(const ModelDescription& model) {
  return model.memory && model.memory->shared;
}

// Stored positions that the query after `context` tokens sees.
int64_t Seen(const ModelDescription& model, int64_t context) {
  const Attention* attention = FirstBlock<Attention>(model);
  if (attention == nullptr) return 0;
  return std::min(context, attention->window.value_or(context));
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

MatrixWork HeadMatrix(const ModelDescription& model, WeightFormat format) {
  MatrixWork head;
  head.Add(Matrices(model, format).back());
  return head;
}

// The matrices of all layers, and what else is multiplied except the head.
MatrixWork BodyMatrices(const ModelDescription& model, WeightFormat format) {
  std::vector<MatrixShape> matrices = Matrices(model, format);
  matrices.pop_back();
  MatrixWork all;
  for (const MatrixShape& matrix : matrices) all.Add(matrix);
  return all;
}

int64_t HeadBias(const ModelDescription& model) {
  return model.head.tied || !model.head.bias ? 0 : model.vocab;
}

// Biases of a block that every token uses.
int64_t BiasesOf(const Attention& a, int64_t width) {
  const auto& biases = a.biases;
  const int64_t heads = biases.query * a.heads + (biases.key + biases.value) * a.groups;
  return heads * a.width + biases.output * width;
}
int64_t BiasesOf(const FastWeights&, int64_t width) { return width; }
int64_t BiasesOf(const FeedForward& feed, int64_t width) {
  return feed.bias ? (feed.gated ? 2 : 1) * feed.hidden + width : 0;
}

// Gain and bias.
int64_t FloatsOf(const Norm& norm, int64_t width) {
  return norm.applies() ? (norm.biased() ? 2 : 1) * width : 0;
}

// Biases, norms and mixing weights that every token uses.
int64_t Vectors(const ModelDescription& model) {
  int64_t all = FloatsOf(model.head.norm, model.width);
  for (const std::vector<SubLayer>& layer : model.layers) {
    for (const SubLayer& sub : layer) {
      all += std::visit([&](const auto& block) { return BiasesOf(block, model.width); },
                        sub.block);
      for (const Norm& norm : {sub.norm, sub.behind, sub.after}) {
        all += FloatsOf(norm, model.width);
      }
      if (const auto* a = std::get_if<Attention>(&sub.block)) {
        all += FloatsOf(a->query_norm, a->width) + FloatsOf(a->key_norm, a->width);
      }
    }
  }
  if (model.memory) all += model.depth() + 1;
  return all;
}

// Relative positions for the distances of `seen` stored positions, in all layers: keys,
// biases, query bias. A query of a memory never sees itself, the others do.
int64_t PositionRows(const ModelDescription& model, int64_t seen) {
  const int64_t rows = model.memory ? seen : seen + 1;
  int64_t all = 0;
  ForAttention(model, [&](const Attention& a) {
    if (a.relative() == nullptr) return;
    const int64_t width = a.heads * a.width;
    all += rows * (width + (a.relative()->tied ? 0 : a.heads)) + width;
  });
  return all;
}

// Floats of a key and value.
int64_t PairFloats(const Attention& a) { return 2 * a.groups * a.width; }

// Floats that a token adds to the state, or that a fixed state has.
int64_t AppendedFloats(const ModelDescription& model) {
  if (SharesMemory(model)) return PairFloats(MemoryReader(model));
  int64_t all = 0;
  ForAttention(model, [&](const Attention& a) { all += PairFloats(a); });
  return all;
}
int64_t FixedFloats(const ModelDescription& model) {
  return StateOf(model).spec.fixed_elements();
}

// State floats that one step moves.
int64_t MovedFloats(const ModelDescription& model, int64_t seen) {
  int64_t read = 0;
  ForAttention(model, [&](const Attention& a) { read += PairFloats(a) * seen; });
  return 2 * FixedFloats(model) + read + AppendedFloats(model);
}

// The row of the embedding, unless the head reads them all, and the row of absolute
// positions.
int64_t InputFloats(const ModelDescription& model, WeightFormat format) {
  const bool read_anyway = model.head.tied && format == WeightFormat::kFp32;
  const bool learned = model.embedding.positions == Embedding::Positions::kLearned;
  return model.width * ((read_anyway ? 0 : 1) + (learned ? 1 : 0));
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

std::vector<MatrixShape> Matrices(const ModelDescription& model, WeightFormat format) {
  const int64_t d = model.width;
  std::vector<MatrixShape> all;
  const auto add = [&](int64_t outputs, int64_t inputs, const MatrixUse& use = {}) {
    all.push_back({.outputs = outputs,
                   .inputs = inputs,
                   .slice = use.slice,
                   .format = MatrixFormat(format, inputs, use)});
  };
  int64_t remembered = 0;  // outputs of the maps of a memory, made once for all layers
  for (const std::vector<SubLayer>& layer : model.layers) {
    for (const SubLayer& sub : layer) {
      if (const auto* a = std::get_if<Attention>(&sub.block)) {
        const int64_t width = a->heads * a->width;
        add(width + (model.memory ? 0 : PairFloats(*a)), d);
        add(d, width, {.slice = a->width});
        remembered = (SharesMemory(model) ? 0 : remembered) + PairFloats(*a);
      } else if (const auto* fast = std::get_if<FastWeights>(&sub.block)) {
        const int64_t width = fast->heads * fast->width;
        add(3 * width, d, {.exact = true});
        if (fast->rule == UpdateRule::kDelta) add(fast->heads, d, {.exact = true});
        add(d, width, {.slice = fast->width, .exact = true});
      } else {
        const auto& feed = std::get<FeedForward>(sub.block);
        if (feed.gated) add(feed.hidden, d);
        add(feed.hidden, d);
        add(d, feed.hidden);
      }
    }
  }
  if (model.memory) add(remembered, d);
  add(model.vocab, d);
  return all;
}

Work StepWork(const ModelDescription& model, int64_t context, WeightFormat format) {
  const int64_t seen = Seen(model, context);
  const MatrixWork body = BodyMatrices(model, format), head = HeadMatrix(model, format);
  const int64_t vectors = Vectors(model) + HeadBias(model) + PositionRows(model, seen);
  return {
      .weight_bytes = body.bytes + head.bytes + kFloat * vectors,
      .state_bytes = kFloat * (MovedFloats(model, seen) + InputFloats(model, format)),
      .multiplied = body.weights + head.weights,
      .int8 = body.int8 + head.int8};
}

Work PromptWork(const ModelDescription& model, int64_t tokens, WeightFormat format) {
  const MatrixWork body = BodyMatrices(model, format), last = HeadMatrix(model, format);
  const int64_t head = last.bytes + kFloat * HeadBias(model);
  Work work{.multiplied = tokens * body.weights + last.weights,
            .int8 = tokens * body.int8 + last.int8};
  if (model.memory) {
    for (int64_t t = 0; t < tokens; ++t) {
      const Work step = StepWork(model, t, format);
      work.weight_bytes += step.weight_bytes - head;
      work.state_bytes += step.state_bytes;
    }
    work.weight_bytes += head;
    return work;
  }
  work.weight_bytes =
      body.bytes + head +
      kFloat * (Vectors(model) + PositionRows(model, Seen(model, tokens - 1)));
  work.state_bytes =
      kFloat * (FixedFloats(model) + Seen(model, tokens) * AppendedFloats(model) +
                tokens * InputFloats(model, format));
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
