// SPDX-License-Identifier: MIT
#include "model/io/gguf_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/status_macros.h"

namespace mnemon {
namespace {

// Numbers of one row made at a time: whole blocks of every format.
constexpr int64_t kMadeAtOnce = 256;

// Rounds to nearest, ties to even.
uint16_t Bf16Of(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  if (std::isnan(number)) return static_cast<uint16_t>(bits >> 16 | 64);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

DType TypeOfPlain(const BlockFormat& format) {
  return format.name == "F16"    ? DType::kF16
         : format.name == "BF16" ? DType::kBF16
                                 : DType::kF32;
}

// Whether its bytes are written unchanged.
bool StaysAsItIs(const GgufSource& source) {
  return source.tensor.format->plain() && source.shift == 0;
}

// Sizes as written.
std::vector<int64_t> ShapeOf(const GgufSource& source) {
  std::vector<int64_t> shape = source.tensor.shape;
  if (source.transposed) std::ranges::reverse(shape);
  return shape;
}

// The row of the file that becomes row `row`.
int64_t RowInFile(const GgufSource& source, int64_t row) {
  if (source.heads == 0) return row;
  const int64_t width = source.tensor.shape[0] / source.heads, half = width / 2;
  const int64_t head = row / width, within = row % width;
  return head * width + within % half * 2 + within / half;
}

}  // namespace

absl::StatusOr<GgufWeights> GgufWeights::Make(std::string_view image,
                                              std::vector<GgufSource> sources,
                                              MadeNumbers numbers) {
  GgufWeights made;
  made.image_ = image;
  made.sources_ = std::move(sources);
  const bool blocks = std::ranges::any_of(made.sources_, [](const GgufSource& source) {
    return !source.tensor.format->plain();
  });
  const bool rounds = numbers == MadeNumbers::kBf16 && blocks;
  std::vector<TensorToWrite> tensors;
  for (const GgufSource& source : made.sources_) {
    const DType type = rounds                ? DType::kBF16
                       : StaysAsItIs(source) ? TypeOfPlain(*source.tensor.format)
                                             : DType::kF32;
    made.types_.push_back(type);
    tensors.push_back({source.name, type, ShapeOf(source), {}});
  }
  MNEMON_ASSIGN_OR_RETURN(made.header_,
                          FormatSafetensorsHeader(tensors, {{"format", "pt"}}));
  made.ends_.push_back(static_cast<int64_t>(made.header_.size()));
  for (const TensorToWrite& tensor : tensors) {
    made.ends_.push_back(made.ends_.back() + *TensorBytes(tensor.dtype, tensor.shape));
  }
  return made;
}

MadeFile GgufWeights::AsFile(GgufWeights weights,
                             std::shared_ptr<const MappedFile> file) {
  const auto shared = std::make_shared<GgufWeights>(std::move(weights));
  return {.path = file->path(),
          .size = shared->size(),
          .make =
              [shared, file](int64_t begin, std::span<char> to) {
                shared->Write(begin, to);
                return absl::OkStatus();
              },
          .check_unchanged = [file] { return file->CheckUnchanged(); }};
}

// Numbers per row. A vector is one row, unless its numbers are permuted.
int64_t GgufWeights::Width(size_t index) const {
  const GgufSource& source = sources_[index];
  const std::vector<int64_t> shape = ShapeOf(source);
  if (shape.size() == 1) return source.heads > 0 ? 1 : shape[0];
  int64_t width = 1;
  for (size_t i = 1; i < shape.size(); ++i) width *= shape[i];
  return width;
}

void GgufWeights::Write(int64_t begin, std::span<char> to) {
  const int64_t end = begin + static_cast<int64_t>(to.size());
  if (begin < ends_[0]) {
    const auto some = static_cast<size_t>(std::min(end, ends_[0]) - begin);
    std::memcpy(to.data(), header_.data() + begin, some);
    to = to.subspan(some);
    begin += static_cast<int64_t>(some);
  }
  while (begin < end) {
    const auto index =
        static_cast<size_t>(std::ranges::upper_bound(ends_, begin) - ends_.begin() - 1);
    const int64_t size = Bits(types_[index]) / 8, width = Width(index);
    const int64_t number = (begin - ends_[index]) / size;
    const int64_t row = number / width,
                  column = number % width / kMadeAtOnce * kMadeAtOnce;
    const int64_t count = std::min(kMadeAtOnce, width - column);
    std::byte made[kMadeAtOnce * sizeof(float)];
    WriteNumbers(index, row, column, count, made);
    const int64_t skipped = begin - ends_[index] - (row * width + column) * size;
    const auto some =
        static_cast<size_t>(std::min(count * size - skipped, end - begin));
    std::memcpy(to.data(), made + skipped, some);
    to = to.subspan(some);
    begin += static_cast<int64_t>(some);
  }
}

void GgufWeights::WriteNumbers(size_t index, int64_t row, int64_t column, int64_t count,
                               std::byte* to) {
  const GgufSource& source = sources_[index];
  const DType type = types_[index];
  const auto size = static_cast<size_t>(Bits(type) / 8);
  if (StaysAsItIs(source) && type == TypeOfPlain(*source.tensor.format)) {
    const char* const data = image_.data() + source.tensor.begin;
    const auto number = static_cast<int64_t>(size);
    if (!source.transposed) {
      const int64_t first = RowInFile(source, row) * Width(index) + column;
      std::memcpy(to, data + first * number, static_cast<size_t>(count * number));
      return;
    }
    const int64_t step = source.tensor.shape[1];
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(to + i * number, data + ((column + i) * step + row) * number, size);
    }
    return;
  }
  float numbers[kMadeAtOnce];
  Decode(index, row, column, count, numbers);
  for (int64_t i = 0; i < count; ++i) {
    // -0 stays so.
    const float shifted = source.shift == 0 ? numbers[i] : numbers[i] + source.shift;
    if (type == DType::kF32) {
      std::memcpy(to + i * int64_t{4}, &shifted, sizeof(shifted));
    } else {
      const uint16_t rounded = Bf16Of(shifted);
      std::memcpy(to + i * int64_t{2}, &rounded, sizeof(rounded));
    }
  }
}

void GgufWeights::Decode(size_t index, int64_t row, int64_t column, int64_t count,
                         float* to) {
  const GgufSource& source = sources_[index];
  const BlockFormat& format = *source.tensor.format;
  const char* const data = image_.data() + source.tensor.begin;
  if (!source.transposed) {
    const int64_t first = RowInFile(source, row) * Width(index) + column;
    format.decode(data + first / format.numbers * format.bytes, count / format.numbers,
                  to);
    return;
  }
  const int64_t first = row / kMadeAtOnce * kMadeAtOnce;
  if (band_of_ != index || band_first_ != first) DecodeBand(index, first);
  const int64_t width = source.tensor.shape[0];
  std::copy_n(band_.begin() + (row - first) * width + column, count, to);
}

// Rows from `first` on are columns of the file: each block contains numbers of many
// rows, and is decoded once.
void GgufWeights::DecodeBand(size_t index, int64_t first) {
  const GgufTensor& tensor = sources_[index].tensor;
  const BlockFormat& format = *tensor.format;
  const int64_t width = tensor.shape[0], columns = tensor.shape[1];
  const int64_t rows = std::min(kMadeAtOnce, columns - first);
  band_.resize(static_cast<size_t>(rows * width));
  for (int64_t i = 0; i < width; ++i) {
    float numbers[kMadeAtOnce];
    const int64_t block = (i * columns + first) / format.numbers;
    format.decode(image_.data() + tensor.begin + block * format.bytes,
                  rows / format.numbers, numbers);
    for (int64_t r = 0; r < rows; ++r) {
      band_[static_cast<size_t>(r * width + i)] = numbers[r];
    }
  }
  band_of_ = index;
  band_first_ = first;
}

}  // namespace mnemon
