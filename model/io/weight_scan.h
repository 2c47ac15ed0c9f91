// SPDX-License-Identifier: MIT
// The search for numbers that no weight may be: NaN and infinity among floats of 32 and
// 16 bits, negative ones among scales, -128 among int8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/io/safetensors.h"

namespace mnemon {

// The first such element of a tensor.
struct BadWeight {
  std::string tensor;
  int64_t element = 0;
};

// What is wrong with it: "is not finite".
std::string_view FaultOf(const TensorInfo& tensor);

// A scan in the order of the file, for bytes that are seen once, while they are read.
class WeightScan {
 public:
  // Begins where the data does.
  explicit WeightScan(const SafetensorsHeader& header);

  // The next bytes.
  void Follow(std::string_view piece);

  // One for each tensor that has any, in the order of the data.
  const std::vector<BadWeight>& found() const { return found_; }

 private:
  enum class Kind { kFloat, kBf16, kFp16, kScale, kInt8 };
  struct Tensor {
    size_t index = 0;
    Kind kind = Kind::kFloat;
    int64_t begin = 0, end = 0;  // bytes, from the start of the file, as at_
  };
  // The first bad element of `bytes`, which begin `before` bytes behind the tensor's
  // own beginning.
  std::optional<int64_t> Look(Kind kind, int64_t before, std::string_view bytes);

  const std::vector<TensorInfo> tensors_;
  std::vector<Tensor> left_;  // those not seen whole, the next one last
  int64_t at_ = 0;
  std::string cut_;  // the bytes of a number whose others come with the next piece
  std::vector<BadWeight> found_;
};

// Of a file whose bytes are all there.
std::vector<BadWeight> FindBadWeights(const Safetensors& file);

}  // namespace mnemon
