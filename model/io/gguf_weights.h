// SPDX-License-Identifier: MIT
// The tensors of a GGUF file as the safetensors file that a Hugging Face library would
// have written, generated piece by piece while it is read.
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
#include "base/files/file_bytes.h"
#include "base/files/mapped_file.h"
#include "model/io/gguf.h"
#include "model/io/safetensors.h"

namespace mnemon {

// A tensor as in Hugging Face's libraries, and how it is made from one in the file.
struct GgufSource {
  std::string name;
  GgufTensor tensor;
  // Whether the matrix is stored transposed in the file.
  bool transposed = false;
  // If positive: row 2 j + r of each of `heads` heads of the file, of K rows, is row j
  // + r K / 2 here, since rotary pairs are adjacent there and in halves here. REQUIRES:
  // it is not transposed; 2 x heads divides the first size; rows are whole blocks.
  int64_t heads = 0;
  // Added to each number.
  float shift = 0;
};

// Output format of numbers in blocks, and of shifted ones.
enum class MadeNumbers {
  kExact,  // float32; others unchanged
  kBf16,   // bfloat16; others too, if any tensor is in blocks
};

// Used by one thread. Refers to the image.
class GgufWeights {
 public:
  // `image`: the file that contains the tensors. INVALID_ARGUMENT if no safetensors
  // file can hold them.
  static absl::StatusOr<GgufWeights> Make(std::string_view image,
                                          std::vector<GgufSource> sources,
                                          MadeNumbers numbers);

  int64_t size() const { return ends_.back(); }  // bytes, the header's included
  // Writes the bytes from `begin` on, as many as `to` has room for. REQUIRES: they
  // exist. Fastest in ascending order.
  void Write(int64_t begin, std::span<char> to);

  // The same bytes as a MadeFile. `file`: the image, which the result keeps.
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
  std::vector<DType> types_;   // of the written numbers
  std::vector<int64_t> ends_;  // of the header, then of each tensor's data
  std::string header_;
  // Decoded rows of a transposed tensor in blocks; which tensor, and from which row on.
  std::vector<float> band_;
  size_t band_of_ = 0;
  int64_t band_first_ = -1;
};

}  // namespace mnemon
