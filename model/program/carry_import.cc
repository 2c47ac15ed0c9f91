// SPDX-License-Identifier: MIT
#include "model/program/carry_import.h"

#include <algorithm>
#include <vector>

#include "model/kernels/row_buffer.h"

namespace mnemon {
namespace {

// Rows that are projected at once.
constexpr int64_t kRowsAtOnce = 256;

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

AppendCall At(AppendCall call, const std::vector<Place>& places, int64_t first,
              int64_t rows, Rows from, int64_t column, int64_t head_stride) {
  call.rows = rows;
  call.places = places.data() + first;
  call.key = {from.data + column, from.stride};
  call.value = {from.data + column + Padded(call.width), from.stride};
  call.head_stride = head_stride;
  return call;
}

// Rows [count, D] through a projection, then into each of the appends.
void ProjectRows(const NormView& norm, const MatrixView& matrix, int64_t head_stride,
                 const float* rows, int64_t width, const std::vector<Place>& places,
                 const std::vector<AppendCall>& appends, int64_t first_column,
                 int64_t pair_stride, CpuTeam& team) {
  const auto count = static_cast<int64_t>(places.size());
  RowBuffer made;
  made.Resize(std::min(count, kRowsAtOnce), matrix.outputs);
  team.Reserve(LinearScratch(std::min(count, kRowsAtOnce), width));
  for (int64_t first = 0; first < count; first += kRowsAtOnce) {
    const int64_t some = std::min(kRowsAtOnce, count - first);
    team.Run([&](CpuWorker& k) {
      k.Linear({.rows = some,
                .in = {rows + first * width, width},
                .norm = norm,
                .weights = matrix,
                .out = made.rows()});
      k.Sync();
      for (size_t l = 0; l < appends.size(); ++l) {
        k.Append(At(appends[l], places, first, some, made.rows(),
                    first_column + static_cast<int64_t>(l) * pair_stride, head_stride));
      }
    });
  }
}

// Keys and values [count, D] as they are.
void CopyRows(const AttentionOp& op, const float* keys, const float* values,
              int64_t width, const std::vector<Place>& places, CpuTeam& team) {
  const auto count = static_cast<int64_t>(places.size());
  RowBuffer flushed;
  flushed.Resize(count, 2 * width);
  const Rows rows = flushed.rows();
  for (int64_t r = 0; r < count; ++r) {
    std::transform(keys + r * width, keys + (r + 1) * width, rows.row(r), Flush);
    std::transform(values + r * width, values + (r + 1) * width, rows.row(r) + width,
                   Flush);
  }
  AppendCall call = op.append;
  call.rows = count;
  call.places = places.data();
  call.key = rows;
  call.value = {rows.data + width, rows.stride};
  call.head_stride = call.width;
  team.Run([&](CpuWorker& k) { k.Append(call); });
}

void ImportAttention(const StepProgram& program, int64_t position,
                     const TensorViews& carry, StateArena& arena, int32_t slot,
                     CpuTeam& team) {
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
      ProjectRows(op.norm, op.project, op.head_stride, carry[i].data, width, places,
                  {op.append}, Padded(op.append.width), 0, team);
    } else {
      CopyRows(op, carry[2 * i].data, carry[2 * i + 1].data, width, places, team);
    }
  }
}

// W [H, K, N] is stored as [H, N, K].
void ImportFastWeights(const StepProgram& program, const TensorViews& carry,
                       StateArena& arena, int32_t slot) {
  const int64_t width = program.head_width;
  for (size_t e = 0; e < carry.size(); ++e) {
    const float* from = carry[e].data;
    float* to = arena.Fixed(slot, static_cast<int>(e));
    const std::vector<int64_t>& shape = carry[e].shape;
    const int64_t features = shape.back();
    if (shape.size() == 2) {  // z
      std::transform(from, from + program.heads * features, to, Flush);
      continue;
    }
    for (int64_t h = 0; h < program.heads; ++h) {
      for (int64_t i = 0; i < width; ++i) {
        for (int64_t n = 0; n < features; ++n) {
          to[(h * features + n) * width + i] =
              Flush(from[(h * width + i) * features + n]);
        }
      }
    }
  }
}

}  // namespace

bool ImportCarry(const StepProgram& program, int64_t position, const TensorViews& carry,
                 StateArena& arena, int32_t slot, CpuTeam& team) {
  if (carry.empty()) return true;  // no memory
  team.TakeFinite();               // what an import that failed halfway has left
  if (program.remember) {
    const RememberOp& op = *program.remember;
    ProjectRows({}, op.maps, op.head_stride, carry[0].data, program.width,
                PlacesOf(arena, slot, 0, position), op.appends, 0, op.pair_stride,
                team);
  } else if (std::holds_alternative<AttentionOp>(program.layers[0])) {
    ImportAttention(program, position, carry, arena, slot, team);
  } else {
    ImportFastWeights(program, carry, arena, slot);
    return std::ranges::all_of(carry, AllFinite, &TensorView::values);
  }
  return team.TakeFinite();
}

}  // namespace mnemon
