// SPDX-License-Identifier: MIT
#include "model/io/finite_scan.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace mnemon {
namespace {

constexpr int64_t kStretch = 256;

bool IsNonFinite(uint32_t bits) {
  constexpr uint32_t kExponent = 0x7F800000;
  return (bits & kExponent) == kExponent;
}

// Of a whole stretch, without a branch and of a fixed length: such a loop is compiled
// to vector instructions.
bool AnyNonFinite(const char* floats) {
  uint32_t bits[kStretch];
  std::memcpy(bits, floats, sizeof(bits));
  uint32_t found = 0;
  for (const uint32_t value : bits) found |= static_cast<uint32_t>(IsNonFinite(value));
  return found != 0;
}

// Index of the first of `count` floats that is NaN or infinite.
std::optional<int64_t> FirstNonFinite(const char* floats, int64_t count) {
  for (int64_t i = 0; i < count;) {
    if (count - i >= kStretch && !AnyNonFinite(floats + i * 4)) {
      i += kStretch;
      continue;
    }
    for (const int64_t end = std::min(count, i + kStretch); i < end; ++i) {
      uint32_t bits;
      std::memcpy(&bits, floats + i * 4, sizeof(bits));
      if (IsNonFinite(bits)) return i;
    }
  }
  return std::nullopt;
}

}  // namespace

FiniteScan::FiniteScan(const SafetensorsHeader& header) {
  if (header.tensors.empty()) return;
  at_ = header.tensors.front().begin;
  for (size_t i = header.tensors.size(); i-- > 0;) {
    const TensorInfo& tensor = header.tensors[i];
    if (tensor.dtype == DType::kF32) left_.push_back({i, tensor.begin, tensor.end});
  }
}

void FiniteScan::Follow(std::string_view piece) {
  const int64_t end = at_ + static_cast<int64_t>(piece.size());
  while (!left_.empty() && left_.back().begin < end) {
    const Floats& floats = left_.back();
    if (found_.empty() || found_.back().tensor != floats.tensor) {
      // Behind a float that is cut, the next one that begins in this piece.
      const int64_t first = (std::max(at_, floats.begin) - floats.begin + 3) / 4;
      const int64_t last = (std::min(end, floats.end) - floats.begin) / 4;
      const auto index =
          FirstNonFinite(piece.data() + floats.begin + first * 4 - at_, last - first);
      if (index) found_.push_back({floats.tensor, first + *index});
    }
    if (floats.end > end) break;
    left_.pop_back();
  }
  at_ = end;
}

std::vector<NonFinite> FindNonFinite(const Safetensors& file) {
  FiniteScan scan(file.header());
  if (!file.header().tensors.empty()) {
    scan.Follow(
        file.bytes().substr(static_cast<size_t>(file.header().tensors.front().begin)));
  }
  return scan.found();
}

}  // namespace mnemon
