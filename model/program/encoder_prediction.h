// SPDX-License-Identifier: MIT
// One prediction of an encoder on the kernels of the CPU, piece by piece.
//
// Sequences go through the layers in groups: one long one, or several short ones whose
// rows share the matrices. A layer first projects all rows of its group; keys and
// values are laid out as packed matrices, so that scores and mixed values are matrix
// products too. Then attention, its output projection and the following feed-forward
// sub-layers run block by block of rows. Every number is computed row by row and head
// by head from its own sequence, so the bits do not depend on groups and pieces.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "model/compute/packed_weights.h"
#include "model/decoder/decoder.h"
#include "model/description/description.h"
#include "model/operations/cpu_team.h"
#include "model/program/encoder_buffers.h"
#include "model/program/step/step_program.h"

namespace mnemon {

struct EncoderAttention {
  Attention settings;
  NormView norm;               // no gain: none
  MatrixView query_key_value;  // [3 H K, D]
  MatrixView output;
  float scale = 1.0f;
  const float* slopes = nullptr;  // [H]; null: none
};

// Sub-layers computed together: one of attention and the feed-forwards after it.
struct EncoderPhase {
  std::optional<EncoderAttention> attention;  // none: feed-forwards before the first
  std::vector<FeedForwardOp> feeds;
};

// The constant part, shared by all predictions.
struct EncoderModel {
  const ModelDescription description;
  const EmbedOp embed;
  const LogitsOp logits;  // its norm comes after head_in
  std::vector<EncoderPhase> phases;
  MatrixView head_in;
  NormView logits_norm;  // null: none

  Act head_act() const { return ActOf(description.head.classifier->activation); }
};

class EncoderPrediction final : public Prediction {
 public:
  // `input` has been checked. `model` and `team` must outlive it; `workers` is the size
  // of their pool. May throw std::bad_alloc.
  EncoderPrediction(const EncoderModel& model, CpuTeam& team, int workers,
                    Predictor::Input input);

  absl::StatusOr<bool> Advance() override;
  int64_t multiply_adds() const override { return multiply_adds_; }
  Predictor::Output TakeOutput() override { return std::move(buffers_.output); }

 private:
  using Kind = EncoderBuffers::Kind;
  using Step = EncoderBuffers::Step;
  using Tile = EncoderBuffers::Tile;
  using QueryKey = EncoderBuffers::QueryKey;

  void BeginGroup();
  void BeginPhase();
  void BeginStep();
  void EndStep();

  const Step& step() const { return buffers_.steps[step_]; }
  int64_t Units() const;
  // The weights that the step multiplies by; no outputs if it has none.
  MatrixView Matrix() const;
  int64_t Factors() const;   // 2 if the product is gated, else 1
  int64_t Products() const;  // multiply-adds of a unit, as computed
  void Compute(int64_t first, int64_t count);
  // Computes `panels` of the product: all of them, unless one row is divided.
  void Multiply(int64_t first, int64_t count, Part panels);

  void Embed(int64_t first, int64_t count);
  void Attend(int64_t first, int64_t count);
  void AttendUnit(CpuWorker& k, int worker, int64_t unit);
  // Copies rows of buffers_.projected to queries, keys and, unless null, values.
  void Spread(int64_t first, int64_t count, QueryKey& to, UnsetFloats* values);
  void Weigh(CpuWorker& k, const QueryKey& from, const Tile& tile, int64_t head,
             Rows scores);
  float* MapRow(int64_t row, int64_t head);

  int64_t phases() const { return static_cast<int64_t>(model_.phases.size()); }
  const EncoderPhase& phase() const { return model_.phases[phase_ - 1]; }
  const EncoderAttention& attention() const { return *phase().attention; }
  int64_t heads() const { return attention().settings.heads; }
  int64_t head_width() const { return attention().settings.width; }

  const EncoderModel& model_;
  CpuTeam& team_;
  const Predictor::Input input_;
  const EncoderShape shape_;
  const int64_t time_;
  const bool notebook_;
  EncoderBuffers buffers_;

  int64_t sequence_ = 0;  // first sequence of the group
  int64_t rows_ = 0;      // of the group
  int64_t phase_ = 0;     // 0: embedding, then the model's, last the head
  size_t map_ = 0;        // in the output: attention blocks before this phase
  size_t step_ = 0;       // of the phase
  int64_t unit_ = 0;      // next unit of the step
  int64_t panel_ = 0;     // next panel of the row, if rows are divided
  int64_t multiply_adds_ = 0;
  bool done_ = false;
};

}  // namespace mnemon
