// SPDX-License-Identifier: MIT
// Scan for invalid weights: NaN and infinity among floats of 32 and 16 bits, negative
// scales, -128 in int8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/io/safetensors.h"

namespace mnemon {

// The first invalid element of a tensor.
struct BadWeight {
  std::string tensor;
  int64_t element = 0;
};

// Description of the fault: "is not finite".
std::string_view FaultOf(const TensorInfo& tensor);

// A scan in the order of the file, while its bytes are read once.
class WeightScan {
 public:
  // Starts at the data.
  explicit WeightScan(const SafetensorsHeader& header);

  // Scans the next bytes.
  void Follow(std::string_view piece);

  // One for each tensor with an invalid element, in the order of the data.
  const std::vector<BadWeight>& found() const { return found_; }

 private:
  enum class Kind { kFloat, kBf16, kFp16, kScale, kInt8 };
  struct Tensor {
    size_t index = 0;
    Kind kind = Kind::kFloat;
    int64_t begin = 0, end = 0;  // bytes, from the start of the file, as at_
  };
  // The first invalid element of `bytes`, which begin `before` bytes into the tensor.
  std::optional<int64_t> Look(Kind kind, int64_t before, std::string_view bytes);

  const std::vector<TensorInfo> tensors_;
  std::vector<Tensor> left_;  // not yet scanned whole, the next one last
  int64_t at_ = 0;
  std::string cut_;  // bytes of a number that continues in the next piece
  std::vector<BadWeight> found_;
};

// Scans a file whose bytes are all loaded.
std::vector<BadWeight> FindBadWeights(const Safetensors& file);

}  // namespace mnemon
