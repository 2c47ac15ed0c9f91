// SPDX-License-Identifier: MIT
#include "model/program/encoder_buffers.h"

#include <algorithm>
#include <new>
#include <type_traits>

#include "base/saturating.h"

namespace mnemon {
namespace {

// Rows of a tile of attention: enough for the matrix kernel to be fast.
constexpr int64_t kMostTileRows = 24;

constexpr int64_t kCacheLine = 64;

// Allocates.
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
    for (int64_t i = 0; i < count; ++i) body(*this, buffers[i], i);
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
    // Its allocator uses whole cache lines.
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
    typename Vector::value_type buffer;
    for (int64_t i = 0; i < count; ++i) body(*this, buffer, i);
    Items(buffers, count);
  }
  int64_t bytes() const { return bytes_.value(); }

 private:
  Saturating bytes_ = 0;
};

int64_t AttentionRow(int64_t width, int64_t time, AttentionMaps maps) {
  // The softmax of a key costs as much as some multiply-adds.
  const Saturating scores = Saturating(Padded(time)) * width + Saturating(16) * time;
  const Saturating values = Saturating(Padded(width)) * time;
  return (scores * (maps == AttentionMaps::kNotebook ? 2 : 1) + values).value();
}

std::vector<const Attention*> AttentionOf(const ModelDescription& model) {
  std::vector<const Attention*> found;
  for (const std::vector<SubLayer>& layer : model.layers) {
    for (const SubLayer& sub : layer) {
      if (const auto* one = std::get_if<Attention>(&sub.block)) found.push_back(one);
    }
  }
  return found;
}

int64_t WidestHead(const ModelDescription& model) {
  int64_t widest = 1;
  for (const Attention* one : AttentionOf(model)) widest = std::max(widest, one->width);
  return widest;
}

// Steps for a block of rows in a phase: see EncoderPrediction.
int64_t MostSteps(const ModelDescription& model) {
  int64_t feeds = 0, most = 0;  // after one block of attention
  for (const std::vector<SubLayer>& layer : model.layers) {
    for (const SubLayer& sub : layer) {
      feeds = std::holds_alternative<FeedForward>(sub.block) ? feeds + 1 : 0;
      most = std::max(most, feeds);
    }
  }
  return 4 + 2 * most;
}

int64_t MostHidden(const ModelDescription& model) {
  int64_t most = 0;
  for (const std::vector<SubLayer>& layer : model.layers) {
    for (const SubLayer& sub : layer) {
      const auto* feed = std::get_if<FeedForward>(&sub.block);
      if (feed != nullptr) most = std::max(most, feed->hidden);
    }
  }
  return most;
}

}  // namespace

EncoderShape::EncoderShape(const ModelDescription& model, int its_workers,
                           int64_t its_batch, int64_t its_time, AttentionMaps its_maps)
    : workers(its_workers),
      batch(its_batch),
      time(its_time),
      maps(its_maps),
      per_group(std::min(batch, std::max<int64_t>(1, kEncoderBlock / time))),
      attention_row(AttentionRow(WidestHead(model), time, maps)),
      tile_rows(
          std::clamp<int64_t>(kPieceMultiplyAdds / attention_row, 1, kMostTileRows)) {}

template <class Size>
void EncoderBuffers::ForEach(const ModelDescription& model, const EncoderShape& shape,
                             Size& size) {
  const int64_t rows = shape.group_rows(), block = std::min(rows, kEncoderBlock);
  const Saturating tokens = Saturating(shape.batch) * shape.time;
  const std::vector<const Attention*> attention = AttentionOf(model);
  int64_t all = 0, padded = 0;  // of all heads of a row: H K; in whole panels
  for (const Attention* one : attention) {
    all = std::max(all, one->heads * one->width);
    padded = std::max(padded, one->heads * Padded(one->width));
  }
  size.Items(output.logits, tokens * model.vocab);
  if (shape.maps != AttentionMaps::kNone) {
    size.Each(output.maps, static_cast<int64_t>(attention.size()),
              [&](auto& each, UnsetFloats& map, int64_t i) {
                each.Items(map, tokens * attention[i]->heads * shape.time);
              });
  }
  size.Rows(x, rows, model.width);
  for (QueryKey* made : {&used, &shown}) {
    if (made == &shown && shape.maps != AttentionMaps::kNotebook) continue;
    size.Rows(made->query, rows, all);
    size.Items(made->keys, Saturating(shape.per_group) * shape.padded_time() * all);
  }
  size.Items(values, Saturating(shape.per_group) * padded * shape.time);
  size.Rows(projected, block, 3 * all);
  size.Rows(mixed, block, std::max(all, model.width));
  size.Rows(hidden, block, MostHidden(model));
  size.Items(positions, block);
  size.Each(scores, shape.workers, [&](auto& each, RowBuffer& of_worker, int64_t) {
    each.Rows(of_worker, shape.tile_rows, shape.time);
  });
  size.Room(steps, MostSteps(model) * (rows / kEncoderBlock + 1));
  size.Room(tiles, block / shape.tile_rows + 2 + block / shape.time);
}

EncoderBuffers::EncoderBuffers(const ModelDescription& model,
                               const EncoderShape& shape) {
  Take take;
  ForEach(model, shape, take);
}

int64_t EncoderBuffers::Bytes(const ModelDescription& model,
                              const EncoderShape& shape) {
  EncoderBuffers none;
  Count count;
  none.ForEach(model, shape, count);
  return count.bytes();
}

}  // namespace mnemon
