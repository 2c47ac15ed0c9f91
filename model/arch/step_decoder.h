// SPDX-License-Identifier: MIT
// What all step forms have in common: from segments to rows and back.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/decoder.h"
#include "model/kernels/cpu_kernels.h"
#include "model/kernels/kernels.h"

namespace mnemon {

// How a step form computes. The team must outlive the decoder.
struct StepOptions {
  WeightFormat format = WeightFormat::kFp32;
  const CpuOperations* operations = nullptr;
  ThreadTeam* team = nullptr;
};

// The rows of one pass: the tokens of some segments, segment by segment.
struct StepBatch {
  struct Run {
    int32_t slot = 0;
    int64_t first = 0;     // its first row
    int64_t count = 0;     // its rows
    int64_t position = 0;  // of its first row
    int64_t block = 0;     // where its blocks stand in `blocks`
    int64_t base = 0;      // the number of the first of them
  };

  std::vector<Run> runs;
  std::vector<int32_t> ids;  // per row, likewise positions
  std::vector<int64_t> positions;
  std::vector<const float*> blocks;  // of all runs
  std::vector<Place> places;         // per row; empty without growing entries
  std::vector<int32_t> wanted;       // rows that logits are asked of

  int64_t rows() const { return static_cast<int64_t>(ids.size()); }
};

// A pass through the layers takes no further segment once it has this many rows: it has
// fewer than kRowsAtOnce + kMaxChunk.
inline constexpr int64_t kRowsAtOnce = 256;

class StepDecoder : public Decoder {
 public:
  const ModelConfig& config() const final { return config_; }
  const StateSpec& spec() const final { return spec_; }
  const std::string& numerics_id() const final { return numerics_id_; }

  absl::Status Step(std::span<const Segment> segments, StateArena& arena,
                    float* logits) final;
  absl::Status Import(int64_t position, const TensorViews& carry, StateArena& arena,
                      int32_t slot) final;

 protected:
  StepDecoder(const ModelConfig& config, StateSpec carry_spec, StateSpec spec,
              const StepOptions& options);

  // Makes room for `rows` rows; may throw std::bad_alloc.
  virtual void MakeRoom(int64_t rows) = 0;
  // On every worker: feeds the batch, whose state has been reserved, and writes rows
  // of logits, one for each of batch.wanted.
  virtual void Forward(StepKernels& k, const StepBatch& batch, float* logits) = 0;
  // Called before Forward by the stepping thread, for what depends on the arena.
  virtual void Prepare(const StepBatch& batch, StateArena& arena) = 0;
  // Writes a carry, whose shapes have been checked, into reserved rows of a slot.
  virtual void ImportRows(int64_t position, const TensorViews& carry, StateArena& arena,
                          int32_t slot) = 0;

  // The places of rows first .. first+count-1 of a slot.
  static std::vector<Place> Places(StateArena& arena, int32_t slot, int64_t first,
                                   int64_t count);
  CpuKernels& kernels() { return kernels_; }

 private:
  void MakeRoomFor(std::span<const Segment> segments, const StateArena& arena);
  void Feed(std::span<const Segment> segments, StateArena& arena, float*& logits);

  const ModelConfig config_;
  const StateSpec carry_spec_;
  const StateSpec spec_;
  const std::string numerics_id_;
  CpuKernels kernels_;
  StepBatch batch_;
};

}  // namespace mnemon
