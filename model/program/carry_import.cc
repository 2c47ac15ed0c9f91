// SPDX-License-Identifier: MIT
#include "model/program/carry_import.h"

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

// Where a projection by heads puts the key and value of an append.
CarryRows::To ByHead(const AppendCall& append, int64_t key, int64_t head_stride) {
  return {.append = append,
          .key = key,
          .value = key + Padded(append.width),
          .head_stride = head_stride};
}

// The memories, through the maps of all layers.
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

// Keys and values [count, D] as they are.
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

void ImportAttention(const StepProgram& program, int64_t position,
                     const TensorViews& carry, StateArena& arena, int32_t slot,
                     CarryWriter& writer) {
  const int64_t count = carry[0].shape[0], width = program.width;
  const std::vector<Place> places = PlacesOf(arena, slot, position - count, count);
  std::vector<const AttentionOp*> ops;
  for (const SubLayerOp& layer : program.layers) {
    if (const auto* op = std::get_if<AttentionOp>(&layer)) ops.push_back(op);
  }
  const bool inputs = carry.size() == ops.size();
  for (size_t i = 0; i < ops.size(); ++i) {
    const AttentionOp& op = *ops[i];
    if (inputs) {
      writer.Append(
          {.rows = carry[i].data,
           .width = width,
           .norm = op.norm,
           .matrix = op.project,
           .places = places,
           .to = {ByHead(op.append, Padded(op.append.width), op.head_stride)}});
    } else {
      ImportPair(op, carry[2 * i].data, carry[2 * i + 1].data, width, places, writer);
    }
  }
}

// W [H, K, N] is stored as [H, N, K].
void ImportFastWeights(const StepProgram& program, const TensorViews& carry,
                       StateArena& arena, int32_t slot, CarryWriter& writer) {
  const int64_t width = program.head_width;
  std::vector<float> entry;
  for (size_t e = 0; e < carry.size(); ++e) {
    const float* from = carry[e].data;
    const std::vector<int64_t>& shape = carry[e].shape;
    const int64_t features = shape.back();
    const int64_t columns = shape.size() == 2 ? 1 : width;  // of z, of W
    entry.resize(static_cast<size_t>(program.heads * features * columns));
    float* to = entry.data();
    for (int64_t h = 0; h < program.heads; ++h) {
      for (int64_t n = 0; n < features; ++n) {
        for (int64_t i = 0; i < columns; ++i) {
          *to++ = Flush(from[(h * columns + i) * features + n]);
        }
      }
    }
    writer.Write(entry, arena.Fixed(slot, static_cast<int>(e)));
  }
}

}  // namespace

bool ImportCarry(const StepProgram& program, int64_t position, const TensorViews& carry,
                 StateArena& arena, int32_t slot, CarryWriter& writer) {
  if (carry.empty()) return true;  // no memory
  if (program.remember) {
    ImportMemories(program, position, carry, arena, slot, writer);
  } else if (std::holds_alternative<AttentionOp>(program.layers[0])) {
    ImportAttention(program, position, carry, arena, slot, writer);
  } else {
    ImportFastWeights(program, carry, arena, slot, writer);
    return std::ranges::all_of(carry, AllFinite, &TensorView::values);
  }
  return true;
}

}  // namespace mnemon
