// SPDX-License-Identifier: MIT
#include "model/io/weight_scan.h"

#include <algorithm>
#include <cstring>

#include "model/compute/tensor_names.h"

namespace mnemon {
namespace {

constexpr int64_t kStretch = 256;
constexpr char kMinusInt8 = '\x80';  // -128

bool IsNonFinite(uint32_t bits) {
  constexpr uint32_t kExponent = 0x7F800000;
  return (bits & kExponent) == kExponent;
}

// Negative ones are the largest as unsigned numbers.
bool IsNoScale(uint32_t bits) { return bits >= 0x7F800000; }

// Of a whole stretch, without a branch and of a fixed length: such a loop is compiled
// to vector instructions.
template <class Bad>
bool AnyBad(const char* floats, Bad bad) {
  uint32_t bits[kStretch];
  std::memcpy(bits, floats, sizeof(bits));
  uint32_t found = 0;
  for (const uint32_t value : bits) found |= static_cast<uint32_t>(bad(value));
  return found != 0;
}

// Index of the first of `count` floats that is bad.
template <class Bad>
std::optional<int64_t> FirstBad(const char* floats, int64_t count, Bad bad) {
  for (int64_t i = 0; i < count;) {
    if (count - i >= kStretch && !AnyBad(floats + i * 4, bad)) {
      i += kStretch;
      continue;
    }
    for (const int64_t end = std::min(count, i + kStretch); i < end; ++i) {
      uint32_t bits;
      std::memcpy(&bits, floats + i * 4, sizeof(bits));
      if (bad(bits)) return i;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string_view FaultOf(const TensorInfo& tensor) {
  if (tensor.dtype == DType::kI8) return "is -128";
  return names::IsScale(tensor.name) ? "is negative or not finite" : "is not finite";
}

WeightScan::WeightScan(const SafetensorsHeader& header) {
  if (header.tensors.empty()) return;
  at_ = header.tensors.front().begin;
  for (size_t i = header.tensors.size(); i-- > 0;) {
    const TensorInfo& tensor = header.tensors[i];
    if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kI8) continue;
    Kind kind = names::IsScale(tensor.name) ? Kind::kScale : Kind::kFloat;
    if (tensor.dtype == DType::kI8) kind = Kind::kInt8;
    left_.push_back({i, kind, tensor.begin, tensor.end});
  }
}

std::optional<int64_t> WeightScan::Look(Kind kind, int64_t before,
                                        std::string_view bytes) {
  if (kind == Kind::kInt8) {
    const size_t at = bytes.find(kMinusInt8);
    if (at == bytes.npos) return std::nullopt;
    return before + static_cast<int64_t>(at);
  }
  const auto first_bad = [kind](const char* floats, int64_t count) {
    return kind == Kind::kScale ? FirstBad(floats, count, IsNoScale)
                                : FirstBad(floats, count, IsNonFinite);
  };
  std::optional<int64_t> cut_bad;
  if (before % 4 != 0) {
    const auto rest = std::min<size_t>(4 - before % 4, bytes.size());
    cut_ += bytes.substr(0, rest);
    if (cut_.size() == 4 && first_bad(cut_.data(), 1)) cut_bad = before / 4;
    bytes.remove_prefix(rest);
    before += static_cast<int64_t>(rest);
    if (before % 4 != 0) return std::nullopt;
  }
  const auto whole = static_cast<int64_t>(bytes.size()) / 4;
  cut_ = bytes.substr(static_cast<size_t>(whole) * 4);
  if (cut_bad) return cut_bad;
  const std::optional<int64_t> index = first_bad(bytes.data(), whole);
  if (!index) return std::nullopt;
  return before / 4 + *index;
}

void WeightScan::Follow(std::string_view piece) {
  const int64_t end = at_ + static_cast<int64_t>(piece.size());
  while (!left_.empty() && left_.back().begin < end) {
    const Tensor& tensor = left_.back();
    const int64_t from = std::max(at_, tensor.begin);
    const auto bad =
        Look(tensor.kind, from - tensor.begin,
             piece.substr(static_cast<size_t>(from - at_),
                          static_cast<size_t>(std::min(end, tensor.end) - from)));
    const bool first = found_.empty() || found_.back().tensor != tensor.index;
    if (bad && first) found_.push_back({tensor.index, *bad});
    if (tensor.end > end) break;
    left_.pop_back();
  }
  at_ = end;
}

std::vector<BadWeight> FindBadWeights(const Safetensors& file) {
  WeightScan scan(file.header());
  if (!file.header().tensors.empty()) {
    scan.Follow(
        file.bytes().substr(static_cast<size_t>(file.header().tensors.front().begin)));
  }
  return scan.found();
}

}  // namespace mnemon
