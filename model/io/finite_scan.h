// SPDX-License-Identifier: MIT
// The search for NaN and infinity in the float32 tensors of a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/io/safetensors.h"

namespace mnemon {

// The first element of a tensor that is NaN or infinite.
struct NonFinite {
  size_t tensor = 0;  // its index in the header
  int64_t element = 0;
};

// A scan in the order of the file, for bytes that are seen once, while they are read.
class FiniteScan {
 public:
  // Begins where the data does.
  explicit FiniteScan(const SafetensorsHeader& header);

  // The next bytes. A float that is cut by the end of a piece is not looked at: pieces
  // must end between floats.
  void Follow(std::string_view piece);

  // One for each tensor that has any, in the order of the data.
  const std::vector<NonFinite>& found() const { return found_; }

 private:
  struct Floats {
    size_t tensor = 0;
    int64_t begin = 0, end = 0;  // bytes, from the start of the file, as at_
  };
  std::vector<Floats> left_;  // those not seen whole, the next one last
  int64_t at_ = 0;
  std::vector<NonFinite> found_;
};

// Of a file whose bytes are all there.
std::vector<NonFinite> FindNonFinite(const Safetensors& file);

}  // namespace mnemon
