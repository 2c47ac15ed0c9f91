// SPDX-License-Identifier: MIT
// Buffers of one prediction of an encoder. One function computes the size of each
// buffer, both to allocate it and to count its cost. Floats are uninitialised: a
// prediction reads only those that it has computed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory/aligned_floats.h"
#include "model/compute/kernels.h"
#include "model/compute/row_buffer.h"
#include "model/decoder/decoder.h"
#include "model/description/description.h"

namespace mnemon {

// Rows of a block, and the fewest rows of a group if there are as many.
inline constexpr int64_t kEncoderBlock = 256;

// How a prediction is divided into groups and tiles.
struct EncoderShape {
  // `workers` is the size of the pool. B and T >= 1, however large.
  EncoderShape(const ModelDescription& model, int workers, int64_t batch, int64_t time,
               AttentionMaps maps);

  int64_t group_rows() const { return per_group * time; }
  int64_t padded_time() const { return Padded(time); }

  const int workers;
  const int64_t batch;  // B
  const int64_t time;   // T
  const AttentionMaps maps;
  const int64_t per_group;  // sequences of a group, at most
  // Multiply-adds of one row of attention of one of the widest heads, as computed:
  // products of whole panels, plus the softmax counted as multiply-adds of equal time.
  // The notebook's maps compute scores of their own.
  const int64_t attention_row;
  const int64_t tile_rows;  // most rows of one sequence that attend together
};

struct EncoderBuffers {
  enum class Kind {
    kEmbed,
    kProject,
    kProjectShown,  // for the notebook's maps
    kAttend,
    kOutput,
    kFeedIn,
    kFeedOut,
    kHeadIn,
    kLogits
  };
  // One operation on a block of rows of the group. Its units are rows or, for
  // attention, some rows of one head.
  struct Step {
    Kind kind;
    int64_t first = 0;
    int64_t rows = 0;
    size_t feed = 0;  // kFeedIn, kFeedOut: which one of the phase
  };
  // Rows of one sequence that attend together.
  struct Tile {
    int64_t first = 0;  // row of the group
    int64_t rows = 0;
  };
  // Queries, and keys as a packed matrix [T, K] per sequence and head.
  struct QueryKey {
    RowBuffer query;
    UnsetFloats keys;
  };

  // May throw std::bad_alloc.
  EncoderBuffers(const ModelDescription& model, const EncoderShape& shape);
  // Bytes that the buffers take, without the struct itself; INT64_MAX on overflow.
  static int64_t Bytes(const ModelDescription& model, const EncoderShape& shape);

  Predictor::Output output;
  RowBuffer x;                         // [rows of the group, D]
  QueryKey used, shown;                // of the layer; of the notebook's maps
  UnsetFloats values;                  // packed matrix [K, T] per sequence and head
  RowBuffer projected, mixed, hidden;  // of a block
  std::vector<int64_t> positions;      // of a block
  std::vector<RowBuffer> scores;       // of each worker
  std::vector<Step> steps;             // of the phase; reserved, as the tiles are
  std::vector<Tile> tiles;             // of the step, where it is attention

 private:
  EncoderBuffers() = default;
  template <class Size>
  void ForEach(const ModelDescription& model, const EncoderShape& shape, Size& size);
};

}  // namespace mnemon
