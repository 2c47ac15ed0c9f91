// SPDX-License-Identifier: MIT
#include "model/steps/encoder_buffers.h"

#include <algorithm>
#include <new>
#include <type_traits>

#include "base/saturating.h"

namespace mnemon {
namespace {

// Rows of a tile of attention: enough for the matrix kernel to be fast.
constexpr int64_t kMostTileRows = 24;

constexpr int64_t kCacheLine = 64;

// Takes the memory.
class Take {
 public:
  template <class Vector>
  void Items(Vector& items, Saturating count) {
    Check(items, count);
    items.resize(count.value());
  }
  template <class Vector>
  void Room(Vector& items, Saturating count) {
    Check(items, count);
    items.reserve(count.value());
  }
  void Rows(RowBuffer& buffer, int64_t rows, int64_t width) {
    buffer.Resize(rows, width);
  }
  template <class Vector, class Body>
  void Each(Vector& buffers, int64_t count, const Body& body) {
    buffers.resize(count);
    for (auto& buffer : buffers) body(*this, buffer);
  }

 private:
  template <class Vector>
  static void Check(const Vector& items, Saturating count) {
    if (static_cast<size_t>(count.value()) > items.max_size()) throw std::bad_alloc();
  }
};

// Counts the same, at most a cache line too much for each.
class Count {
 public:
  template <class Vector>
  void Items(Vector&, Saturating count) {
    bytes_ += count * sizeof(typename Vector::value_type);
    // Its allocator takes whole cache lines.
    if constexpr (std::is_same_v<Vector, UnsetFloats>) bytes_ += kCacheLine;
  }
  template <class Vector>
  void Room(Vector& items, Saturating count) {
    Items(items, count);
  }
  void Rows(RowBuffer&, int64_t rows, int64_t width) {
    bytes_ += Saturating(rows) * RowStride(width) * sizeof(float);
  }
  template <class Vector, class Body>
  void Each(Vector& buffers, int64_t count, const Body& body) {
    Count one;
    typename Vector::value_type buffer;
    body(one, buffer);
    Items(buffers, count);
    bytes_ += one.bytes_ * count;
  }
  int64_t bytes() const { return bytes_.value(); }

 private:
  Saturating bytes_ = 0;
};

int64_t AttentionRow(int64_t width, int64_t time, AttentionMaps maps) {
  // The softmax of a key takes as long as some multiply-adds.
  const Saturating scores = Saturating(Padded(time)) * width + Saturating(16) * time;
  const Saturating values = Saturating(Padded(width)) * time;
  return (scores * (maps == AttentionMaps::kNotebook ? 2 : 1) + values).value();
}

}  // namespace

EncoderShape::EncoderShape(const ModelConfig& config, int its_workers,
                           int64_t its_batch, int64_t its_time, AttentionMaps its_maps)
    : workers(its_workers),
      batch(its_batch),
      time(its_time),
      maps(its_maps),
      per_group(std::min(batch, std::max<int64_t>(1, kEncoderBlock / time))),
      padded_width(Padded(config.head_width())),
      attention_row(AttentionRow(config.head_width(), time, maps)),
      tile_rows(
          std::clamp<int64_t>(kPieceMultiplyAdds / attention_row, 1, kMostTileRows)) {}

template <class Size>
void EncoderBuffers::ForEach(const ModelConfig& c, const EncoderShape& shape,
                             Size& size) {
  const int64_t rows = shape.group_rows(), block = std::min(rows, kEncoderBlock);
  const Saturating tokens = Saturating(shape.batch) * shape.time;
  const Saturating heads = Saturating(shape.per_group) * c.heads;
  size.Items(output.logits, tokens * c.vocab);
  if (shape.maps != AttentionMaps::kNone) {
    size.Each(output.maps, c.layers, [&](auto& each, UnsetFloats& map) {
      each.Items(map, tokens * c.heads * shape.time);
    });
  }
  size.Rows(x, rows, c.d_model);
  for (QueryKey* made : {&used, &shown}) {
    if (made == &shown && shape.maps != AttentionMaps::kNotebook) continue;
    size.Rows(made->query, rows, c.d_model);
    size.Items(made->keys, heads * shape.padded_time() * c.head_width());
  }
  size.Items(values, heads * shape.padded_width * shape.time);
  size.Rows(projected, block, 3 * c.d_model);
  size.Rows(mixed, block, c.d_model);
  size.Rows(hidden, block, c.d_ff);
  size.Items(positions, block);
  size.Each(scores, shape.workers, [&](auto& each, RowBuffer& of_worker) {
    each.Rows(of_worker, shape.tile_rows, shape.time);
  });
  size.Room(steps, 6 * (rows / kEncoderBlock + 1));
  size.Room(tiles, block / shape.tile_rows + 2 + block / shape.time);
}

EncoderBuffers::EncoderBuffers(const ModelConfig& config, const EncoderShape& shape) {
  Take take;
  ForEach(config, shape, take);
}

int64_t EncoderBuffers::Bytes(const ModelConfig& config, const EncoderShape& shape) {
  EncoderBuffers none;
  Count count;
  none.ForEach(config, shape, count);
  return count.bytes();
}

}  // namespace mnemon
