// SPDX-License-Identifier: MIT
#include "model/compute/step_weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "model/compute/tensor_names.h"

namespace mnemon {
namespace {

// Approximate amount that one thread packs at a time.
constexpr int64_t kPartFloats = int64_t{1} << 16;

}  // namespace

StepWeights::StepWeights(const TensorViews& views, const StepOptions& options)
    : views_(views),
      stream_(options.stream),
      pool_(*options.pool),
      packed_(options.format) {}

const TensorView* StepWeights::Find(std::string_view name) const {
  for (const TensorView& view : views_) {
    if (view.name == name) return &view;
  }
  return nullptr;
}

const TensorView& StepWeights::Get(std::string_view name) const {
  const TensorView* view = Find(name);
  MNEMON_CHECK(view != nullptr);
  return *view;
}

void StepWeights::Later(const std::vector<std::span<const std::byte>>& sources,
                        std::function<void()> fill) {
  Part& part = parts_.emplace_back(Part{.fill = std::move(fill)});
  for (const std::span<const std::byte> source : sources) {
    const std::byte* const end = source.data() + source.size();
    if (part.end == nullptr || std::less<>()(part.end, end)) part.end = end;
    if (part.begin == nullptr || std::less<>()(source.data(), part.begin)) {
      part.begin = source.data();
    }
  }
}

MatrixView StepWeights::Room(const std::vector<std::string>& bases, int64_t outputs,
                             const MatrixUse& use) {
  bool bias = false;
  for (const std::string& base : bases) {
    bias = bias || Find(names::Bias(base)) != nullptr;
  }
  const int64_t inputs = Get(names::Weight(bases[0])).shape[1];
  return packed_.Room(MatrixFormat(packed_.format(), inputs, use), outputs, inputs,
                      bias, use.slice);
}

void StepWeights::FillLater(const MatrixView& room, const std::string& base,
                            int64_t piece, const std::function<int64_t(int64_t)>& at) {
  // Calls fill(output, first row, rows) for rows begin .. end-1 of the base.
  const auto each_piece = [piece, at](int64_t begin, int64_t end, const auto& fill) {
    while (begin < end) {
      const int64_t within = begin % piece,
                    rows = std::min(piece - within, end - begin);
      fill(at(begin / piece) + within, begin, rows);
      begin += rows;
    }
  };
  if (const TensorView* bias = Find(names::Bias(base)); bias != nullptr) {
    Later(BytesOfRows(*bias, 0, bias->rows()), [room, each_piece, bias] {
      std::vector<float> all(bias->count());
      ReadRows(*bias, 0, bias->rows(), all.data());
      each_piece(0, bias->rows(), [&](int64_t output, int64_t first, int64_t rows) {
        PackedWeights::FillBias(room, output, std::span(all).subspan(first, rows));
      });
    });
  }
  const TensorView& weights = Get(names::Weight(base));
  const int64_t width = room.inputs, rows = weights.shape[0];
  const int64_t most = std::max<int64_t>(1, kPartFloats / width / kPanel) * kPanel;
  if (room.format == WeightFormat::kBf16 && IsStoredBf16(weights)) {
    for (int64_t first = 0; first < rows; first += most) {
      const int64_t end = std::min(rows, first + most);
      Later(BytesOfRows(weights, first, end - first),
            [room, each_piece, from = &weights, width, first, end] {
              std::vector<uint16_t> read(static_cast<size_t>((end - first) * width));
              ReadBf16Rows(*from, first, end - first, read.data());
              each_piece(first, end, [&](int64_t output, int64_t row, int64_t count) {
                PackedWeights::FillBf16Rows(
                    room, output,
                    std::span(read).subspan((row - first) * width, count * width));
              });
            });
    }
    return;
  }
  if (weights.int8 == nullptr) {
    for (int64_t first = 0; first < rows; first += most) {
      const int64_t end = std::min(rows, first + most);
      Later(BytesOfRows(weights, first, end - first),
            [room, each_piece, from = &weights, width, first, end] {
              std::vector<float> read;
              if (from->data == nullptr) {
                read.resize(static_cast<size_t>((end - first) * width));
                ReadRows(*from, first, end - first, read.data());
              }
              const float* const some =
                  read.empty() ? from->data + first * width : read.data();
              each_piece(first, end, [&](int64_t output, int64_t row, int64_t count) {
                PackedWeights::Fill(
                    room, output,
                    {some + (row - first) * width, static_cast<size_t>(count * width)});
              });
            });
    }
    return;
  }
  MNEMON_CHECK(room.format == WeightFormat::kInt8);
  for (int64_t first = 0; first < rows; first += most) {
    const int64_t end = std::min(rows, first + most);
    const auto some = std::span(weights.int8, weights.count())
                          .subspan(first * width, (end - first) * width);
    Later({std::as_bytes(some)}, [room, each_piece, some, width, first, end] {
      each_piece(first, end, [&](int64_t output, int64_t row, int64_t count) {
        PackedWeights::FillInt8Rows(room, output,
                                    some.subspan((row - first) * width, count * width));
      });
    });
  }
  const std::span stored(weights.scales, static_cast<size_t>(rows) * sizeof(float));
  Later({stored}, [room, each_piece, stored, rows] {
    std::vector<float> scales(static_cast<size_t>(rows));
    std::memcpy(scales.data(), stored.data(), stored.size());
    each_piece(0, rows, [&](int64_t output, int64_t row, int64_t count) {
      PackedWeights::FillScales(room, output, std::span(scales).subspan(row, count));
    });
  });
}

MatrixView StepWeights::Linear(const std::vector<std::string>& bases,
                               const MatrixUse& use) {
  int64_t outputs = 0;
  for (const std::string& base : bases) outputs += Get(names::Weight(base)).shape[0];
  const MatrixView room = Room(bases, outputs, use);
  int64_t begin = 0;
  for (const std::string& base : bases) {
    const int64_t rows = Get(names::Weight(base)).shape[0];
    FillLater(room, base, rows, [begin](int64_t) { return begin; });
    begin += rows;
  }
  return room;
}

MatrixView StepWeights::ByHead(const std::vector<HeadRows>& maps, int64_t head_width,
                               const MatrixUse& use) {
  const int64_t heads = Get(names::Weight(maps[0].base)).shape[0] / head_width;
  const int64_t stride = GroupStride(maps, head_width), each = Padded(head_width);
  std::vector<std::string> bases;
  for (const HeadRows& map : maps) bases.push_back(map.base);
  const MatrixView room = Room(bases, heads / maps[0].heads * stride, use);
  for (size_t i = 0; i < maps.size(); ++i) {
    const int64_t begin = GroupStride(std::span(maps).first(i), head_width);
    FillLater(room, maps[i].base, head_width,
              [begin, stride, each, of = maps[i].heads](int64_t head) {
                return begin + head / of * stride + head % of * each;
              });
  }
  return room;
}

int64_t StepWeights::GroupStride(std::span<const HeadRows> maps, int64_t head_width) {
  int64_t heads = 0;
  for (const HeadRows& map : maps) heads += map.heads;
  return heads * Padded(head_width);
}

bool StepWeights::IsBf16(std::string_view name) const {
  return IsStoredBf16(Get(name));
}

MatrixView StepWeights::Bf16Table(const std::string& base) {
  const TensorView& view = Get(names::Weight(base));
  const MatrixView room =
      packed_.Room(WeightFormat::kBf16, view.rows(), view.width(), /*bias=*/false);
  FillLater(room, base, view.rows(), [](int64_t) { return 0; });
  return room;
}

const float* StepWeights::Raised(std::string_view name, float more) {
  const TensorView& view = Get(name);
  const int64_t width = view.width();
  float* const to = packed_.Make(static_cast<int64_t>(view.count()));
  const int64_t most = std::max<int64_t>(1, kPartFloats / std::max<int64_t>(1, width));
  for (int64_t first = 0; first < view.rows(); first += most) {
    const int64_t rows = std::min(most, view.rows() - first);
    Later(BytesOfRows(view, first, rows), [from = &view, to, first, rows, width, more] {
      float* const begin = to + first * width;
      ReadRows(*from, first, rows, begin);
      for (int64_t i = 0; i < rows * width; ++i) begin[i] = Flush(begin[i] + more);
    });
  }
  return to;
}

NormView StepWeights::Norm(const std::string& base, const mnemon::Norm& norm) {
  if (!norm.applies()) return {};
  const bool centred = norm.kind == mnemon::Norm::Kind::kLayer;
  return {.gain = Raised(names::Weight(base), norm.one_plus ? 1.0f : 0.0f),
          .bias = norm.biased() ? Table(names::Bias(base))
                                : Make(Get(names::Weight(base)).shape[0]),
          .eps = static_cast<float>(norm.eps),
          .centred = centred};
}

void StepWeights::Pack() {
  std::ranges::stable_sort(parts_, std::less<>(), &Part::end);
  // Start of the weights that part i and later parts read.
  std::vector<const std::byte*> needed(parts_.size());
  for (size_t i = parts_.size(); i-- > 0;) {
    needed[i] = parts_[i].begin;
    if (i + 1 < parts_.size()) {
      needed[i] = std::min(needed[i], needed[i + 1], std::less<>());
    }
  }
  std::mutex mutex;
  // Guarded by mutex:
  std::vector<bool> done(parts_.size());
  size_t first = 0;  // first part that is not done
  std::atomic<size_t> next = 0;
  const auto work = [&](int) {
    for (size_t i = next++; i < parts_.size(); i = next++) {
      if (stream_.await) stream_.await(parts_[i].end);
      parts_[i].fill();
      if (!stream_.release_before) continue;
      const std::byte* begin = nullptr;
      {
        std::lock_guard lock(mutex);
        done[i] = true;
        if (!done[first]) continue;
        while (first < parts_.size() && done[first]) ++first;
        begin = parts_[first - 1].end;  // data after it may not be loaded
        if (first < parts_.size())
          begin = std::min(begin, needed[first], std::less<>());
      }
      stream_.release_before(begin);
    }
  };
  pool_.Run(
      [](void* given, int index) { (*static_cast<decltype(work)*>(given))(index); },
      const_cast<void*>(static_cast<const void*>(&work)));
  parts_ = {};
  views_ = {};
}

}  // namespace mnemon
