// SPDX-License-Identifier: MIT
// The tensors of a GGUF file as the safetensors file that a library of Hugging Face
// would have written of them, made piece by piece while it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_bytes.h"
#include "base/mapped_file.h"
#include "model/io/gguf.h"
#include "model/io/safetensors.h"

namespace mnemon {

// A tensor as Hugging Face's libraries have it, and how it comes of one of the file.
struct GgufSource {
  std::string name;
  GgufTensor tensor;
  // Of a matrix: the file has columns as rows.
  bool transposed = false;
  // Above 0: row 2 j + r of each of so many heads of the file, of K rows, is row
  // j + r K / 2 here: heads turn in neighbours there, in halves here. REQUIRES: it is
  // not transposed; 2 x heads divides the first size; rows are whole blocks.
  int64_t heads = 0;
  // Is added to each number.
  float shift = 0;
};

// How numbers in blocks, and shifted ones, are written.
enum class MadeNumbers {
  kExact,  // as float32; all others as they are
  kBf16,   // rounded to bfloat16, and all others where any tensor is in blocks
};

// One thread. Refers to the image.
class GgufWeights {
 public:
  // `image`: the file of which the tensors are. INVALID_ARGUMENT where no safetensors
  // file can have them.
  static absl::StatusOr<GgufWeights> Make(std::string_view image,
                                          std::vector<GgufSource> sources,
                                          MadeNumbers numbers);

  int64_t size() const { return ends_.back(); }  // bytes, the header's included
  // Writes the bytes from `begin` on, as many as `to` has room for. REQUIRES: it has
  // them. Fastest in order.
  void Write(int64_t begin, std::span<char> to);

  // The same bytes. `file`: the image, which it keeps.
  static MadeFile AsFile(GgufWeights weights, std::shared_ptr<const MappedFile> file);

 private:
  GgufWeights() = default;
  int64_t Width(size_t index) const;
  void WriteNumbers(size_t index, int64_t row, int64_t column, int64_t count,
                    std::byte* to);
  void Decode(size_t index, int64_t row, int64_t column, int64_t count, float* to);
  void DecodeBand(size_t index, int64_t first);

  std::string_view image_;
  std::vector<GgufSource> sources_;
  std::vector<DType> types_;   // of the numbers that are written
  std::vector<int64_t> ends_;  // of the header, and behind it of each tensor's data
  std::string header_;
  // Of a transposed tensor in blocks, rows here, decoded; which tensor, and from which
  // row on.
  std::vector<float> band_;
  size_t band_of_ = 0;
  int64_t band_first_ = -1;
};

}  // namespace mnemon
