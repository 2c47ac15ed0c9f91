// SPDX-License-Identifier: MIT
#include "model/program/step/carry_import.h"

#include <algorithm>

namespace mnemon {
namespace {

std::vector<Place> PlacesOf(StateArena& arena, int32_t slot, int64_t first,
                            int64_t count) {
  const BlockTable table = arena.Table(slot);
  std::vector<Place> places;
  for (int64_t p = first; p < first + count; ++p) {
    places.push_back(
        {.block = table.block(p / kBlockPositions), .slot = p % kBlockPositions});
  }
  return places;
}

// Offsets of an append's key and value in the output of a projection by heads.
CarryRows::To ByHead(const AppendCall& append, int64_t key, int64_t head_stride) {
  return {.append = append,
          .key = key,
          .value = key + Padded(append.width),
          .head_stride = head_stride};
}

// Imports the memories, through the maps of all layers.
void ImportMemories(const StepProgram& program, int64_t position,
                    const TensorViews& carry, StateArena& arena, int32_t slot,
                    CarryWriter& writer) {
  const RememberOp& op = *program.remember;
  const int64_t count = carry[0].shape[0];
  CarryRows rows{.rows = carry[0].data,
                 .width = program.width,
                 .norm = {},
                 .matrix = op.maps,
                 .places = PlacesOf(arena, slot, position - count, count),
                 .to = {}};
  for (size_t l = 0; l < op.appends.size(); ++l) {
    rows.to.push_back(ByHead(op.appends[l], static_cast<int64_t>(l) * op.pair_stride,
                             op.head_stride));
  }
  writer.Append(rows);
}

// Imports keys and values [count, D] unchanged.
void ImportPair(const AttentionOp& op, const float* keys, const float* values,
                int64_t width, const std::vector<Place>& places, CarryWriter& writer) {
  const auto count = static_cast<int64_t>(places.size());
  std::vector<float> flushed(static_cast<size_t>(count * 2 * width));
  for (int64_t r = 0; r < count; ++r) {
    float* const row = flushed.data() + r * 2 * width;
    std::transform(keys + r * width, keys + (r + 1) * width, row, Flush);
    std::transform(values + r * width, values + (r + 1) * width, row + width, Flush);
  }
  writer.Append({.rows = flushed.data(),
                 .width = 2 * width,
                 .norm = {},
                 .matrix = {},
                 .places = places,
                 .to = {{.append = op.append,
                         .key = 0,
                         .value = width,
                         .head_stride = op.append.width}}});
}

// W [H, K, N] is stored as [H, N, K]; z [H, N] unchanged.
bool ImportFixed(const TensorView& carry, float* state, CarryWriter& writer) {
  const float* const from = carry.data;
  const int64_t heads = carry.shape.front(), features = carry.shape.back();
  const int64_t columns = carry.shape.size() == 2 ? 1 : carry.shape[1];
  std::vector<float> entry(carry.count());
  float* to = entry.data();
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t n = 0; n < features; ++n) {
      for (int64_t i = 0; i < columns; ++i) {
        *to++ = Flush(from[(h * columns + i) * features + n]);
      }
    }
  }
  writer.Write(entry, state);
  return AllFinite(carry.values());
}

// Imports the sub-layers of a program one by one.
class SubLayerImport {
 public:
  SubLayerImport(const StepProgram& program, int64_t position, const TensorViews& carry,
                 StateArena& arena, int32_t slot, CarryWriter& writer)
      : width_(program.width),
        reach_(program.reaches[0]),
        position_(position),
        carry_(carry),
        arena_(arena),
        slot_(slot),
        writer_(writer) {}

  bool finite() const { return finite_; }

  void operator()(const AttentionOp& op) {
    if (reach_ == 0) return;  // nothing is carried
    const TensorView& first = carry_[next_++];
    const std::vector<Place> places =
        PlacesOf(arena_, slot_, position_ - first.shape[0], first.shape[0]);
    if (first.shape.size() == 2) {  // inputs [n, D]
      writer_.Append({.rows = first.data,
                      .width = width_,
                      .norm = op.norm,
                      .matrix = op.project,
                      .places = places,
                      .to = {ByHead(op.append, op.key_column(), op.group_stride)}});
      return;
    }
    ImportPair(op, first.data, carry_[next_++].data, op.append.heads * op.append.width,
               places, writer_);
  }

  void operator()(const FastWeightsOp& op) {
    float* const fixed = arena_.Fixed(slot_, 0);
    for (const int64_t offset : {op.call.state_offset, op.call.normaliser_offset}) {
      if (offset < 0) continue;
      finite_ = ImportFixed(carry_[next_++], fixed + offset, writer_) && finite_;
    }
  }

  void operator()(const FeedForwardOp&) {}

 private:
  const int64_t width_, reach_;
  const int64_t position_;
  const TensorViews& carry_;
  StateArena& arena_;
  const int32_t slot_;
  CarryWriter& writer_;
  size_t next_ = 0;  // next entry of the carry
  bool finite_ = true;
};

}  // namespace

bool ImportCarry(const StepProgram& program, int64_t position, const TensorViews& carry,
                 StateArena& arena, int32_t slot, CarryWriter& writer) {
  if (carry.empty()) return true;  // no memory
  if (program.remember) {
    ImportMemories(program, position, carry, arena, slot, writer);
    return true;
  }
  SubLayerImport import(program, position, carry, arena, slot, writer);
  ForSubLayers(program, [&](const auto& op) { import(op); });
  return import.finite();
}

}  // namespace mnemon
