// SPDX-License-Identifier: MIT
// The base of all step forms: from segments to rows and back. A step form is a
// StepDecoder with packed weights, which never change, and its StepPasses, each of
// which holds the rows of one way through the layers.
//
// Either all workers of the pool go through the layers together, each with its part of
// every operation, or, with many sessions and small weights, each goes alone with its
// part of the sessions and waits for no other. The bits are the same.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/decoder/decoder.h"
#include "model/kernels/cpu_team.h"
#include "model/kernels/kernels.h"
#include "model/steps/step_batch.h"
#include "model/steps/step_options.h"
#include "model/steps/step_weights.h"

namespace mnemon {

// A group of segments that is computed at once takes no further one when it has this
// many rows: it has fewer than kRowsAtOnce + kMaxChunk.
inline constexpr int64_t kRowsAtOnce = 256;

// Workers go alone when each has this many rows, which pay for reading all weights, and
// all that is packed takes no more bytes than these.
inline constexpr int64_t kRowsAlone = 16;
inline constexpr int64_t kBytesAlone = int64_t{32} << 20;

class StepPass {
 public:
  virtual ~StepPass() = default;

  // Makes room for `rows` rows; may throw std::bad_alloc.
  virtual void MakeRoom(int64_t rows) = 0;
  // By the stepping thread, before Forward, for what depends on the arena. The batch,
  // whose state has been reserved, stays as it is until Forward returns.
  virtual void Prepare(const StepBatch& batch, StateArena& arena) = 0;
  // On every worker that goes this way: computes the batch and writes rows of logits,
  // one for each of batch.wanted.
  virtual void Forward(CpuWorker& k, float* logits) = 0;
};

class StepDecoder : public Decoder {
 public:
  const ModelConfig& config() const final { return config_; }
  const StateSpec& spec() const final { return spec_; }
  const std::string& numerics_id() const final { return numerics_id_; }
  int64_t weight_bytes() const final { return weights_.packed().bytes(); }

  absl::Status Step(std::span<const Segment> segments, StateArena& arena,
                    float* logits) final;
  absl::Status Import(int64_t position, const TensorViews& carry, StateArena& arena,
                      int32_t slot) final;

 protected:
  // What `views` show must outlive the construction.
  StepDecoder(const ModelConfig& config, StateSpec carry_spec, StateSpec spec,
              const TensorViews& views, const StepOptions& options);

  virtual std::unique_ptr<StepPass> MakePass() const = 0;
  // What its operations need aside, but for Linear: the most of their ScratchFloats
  // where no row sees keys of more than `groups` groups.
  virtual int64_t Scratch(int64_t groups) const = 0;
  // Writes a carry, whose shapes have been checked, into reserved rows of a slot.
  virtual void ImportRows(int64_t position, const TensorViews& carry, StateArena& arena,
                          int32_t slot) = 0;

  // The places of rows first .. first+count-1 of a slot.
  static std::vector<Place> Places(const StateArena& arena, int32_t slot, int64_t first,
                                   int64_t count);
  StepWeights& weights() { return weights_; }
  CpuTeam& kernels() { return kernels_; }

 private:
  // Segments that one worker computes, or all workers together.
  struct Way {
    std::unique_ptr<StepPass> pass;
    StepBatch batch;
    std::span<const Segment> segments;
    float* logits = nullptr;
  };

  // The first segments, which are computed at once.
  static std::span<const Segment> Group(std::span<const Segment> segments);
  // Deals a group out; returns how many ways are used.
  int Deal(std::span<const Segment> group);
  // Room for the segments' rows in the arena.
  absl::Status Reserve(std::span<const Segment> segments, StateArena& arena);
  void MakeRoom(std::span<const Segment> segments);
  void Compute(std::span<const Segment> group, StateArena& arena, float*& logits);

  const ModelConfig config_;
  const StateSpec carry_spec_;
  const StateSpec spec_;
  const std::string numerics_id_;
  StepWeights weights_;
  CpuTeam kernels_;
  std::vector<Way> ways_;  // one for each worker
  BlockCopies copies_;     // empty between steps
};

}  // namespace mnemon
