// SPDX-License-Identifier: MIT
// One prediction of an encoder on the kernels of the CPU, piece by piece.
//
// Sequences go through the layers in groups: one long one, or several short ones whose
// rows share the matrices. A layer first projects all rows of its group; keys and
// values are laid out as packed matrices, so that scores and mixed values are matrix
// products too. Then, block by block of rows, come attention, its output and the
// feed-forward sub-layer. Every number is computed row by row and head by head from its
// own sequence: neither the groups nor the pieces reach the bits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/aligned_floats.h"
#include "model/config/config.h"
#include "model/decoder/decoder.h"
#include "model/kernels/cpu_kernels.h"
#include "model/kernels/row_buffer.h"
#include "model/positions/sinusoid.h"
#include "model/steps/step_weights.h"

namespace mnemon {

struct EncoderLayer {
  NormView norm;
  MatrixView query_key_value;  // [3 D, D]
  MatrixView output;
  StepFeedForward feed_forward;
};

// What no prediction changes.
struct EncoderModel {
  const ModelConfig config;
  const StepFrame frame;  // its norm stands behind head_in
  const float scale;
  const float* learned = nullptr;  // [P, D]
  std::optional<SinusoidTable> sinusoid;
  std::vector<float> slopes;  // [H]; empty: none
  std::vector<EncoderLayer> layers;
  MatrixView head_in;
  NormView logits_norm;  // null: none
};

// Rows of a block, and the least of a group where there are as many.
inline constexpr int64_t kEncoderBlock = 256;

class EncoderPrediction final : public Prediction {
 public:
  // `input` was checked; `model` and `kernels` must outlive it, `workers` is the size
  // of their pool. May throw std::bad_alloc.
  EncoderPrediction(const EncoderModel& model, CpuKernels& kernels, int workers,
                    Predictor::Input input);

  absl::StatusOr<bool> Advance() override;
  Predictor::Output TakeOutput() override { return std::move(output_); }

 private:
  enum class Kind {
    kEmbed,
    kProject,
    kAttend,
    kOutput,
    kFeedIn,
    kFeedOut,
    kHeadIn,
    kLogits
  };
  // Something done with a block of rows of the group, in units: rows, of attention some
  // rows of one head.
  struct Step {
    Kind kind;
    int64_t first = 0;
    int64_t rows = 0;
  };
  // Rows of one sequence that attend together.
  struct Tile {
    int64_t first = 0;  // row of the group
    int64_t rows = 0;
  };
  // Queries, and keys as packed matrices [T, K] of each sequence and head.
  struct QueryKey {
    RowBuffer query;
    AlignedFloats keys;
  };

  void BeginGroup();
  void BeginPhase();
  void BeginStep();
  void EndStep();

  const Step& step() const { return steps_[step_]; }
  int64_t Units() const;
  int64_t UnitCost() const;  // multiply-adds
  void Compute(int64_t first, int64_t count);

  void Embed(int64_t first, int64_t count);
  void Project(int64_t first, int64_t count);
  void Attend(int64_t first, int64_t count);
  void AttendUnit(StepKernels& k, int worker, int64_t unit);
  void Linear(const LinearCall& call);
  // From rows of projected_ to queries, keys and, where it is not null, values.
  void Spread(int64_t first, int64_t count, QueryKey& to, AlignedFloats* values);
  void Weigh(StepKernels& k, const QueryKey& from, const Tile& tile, int64_t head,
             Rows scores);
  float* MapRow(int64_t row, int64_t head);

  int64_t layers() const { return static_cast<int64_t>(model_.layers.size()); }
  const EncoderLayer& layer() const { return model_.layers[phase_ - 1]; }
  int64_t padded_time() const { return (time_ + kPanel - 1) / kPanel * kPanel; }
  int64_t padded_width() const {
    return (model_.config.head_width() + kPanel - 1) / kPanel * kPanel;
  }

  const EncoderModel& model_;
  CpuKernels& kernels_;
  const int workers_;
  const Predictor::Input input_;
  const int64_t time_;
  const bool notebook_;
  const int64_t per_group_;  // sequences
  const int64_t tile_rows_;
  Predictor::Output output_;

  int64_t sequence_ = 0;     // the first of the group
  int64_t rows_ = 0;         // of the group
  int64_t phase_ = 0;        // 0: embedding, 1 .. L: a layer, L+1: the head
  std::vector<Step> steps_;  // of the phase
  size_t step_ = 0;
  std::vector<Tile> tiles_;  // of the step, where it is attention
  int64_t unit_ = 0;         // the next one of the step
  bool done_ = false;

  RowBuffer x_;            // [rows of the group, D]
  QueryKey used_, shown_;  // of the layer; of the notebook's maps
  AlignedFloats values_;   // packed matrices [K, T] of each sequence and head
  RowBuffer projected_, mixed_, hidden_, positions_;  // of a block
  std::vector<const float*> position_rows_;
  std::vector<RowBuffer> scores_;  // of each worker
};

}  // namespace mnemon
