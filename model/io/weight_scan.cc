// SPDX-License-Identifier: MIT
#include "model/io/weight_scan.h"

#include <algorithm>
#include <cstring>

#include "model/compute/tensor_names.h"

namespace mnemon {
namespace {

constexpr int64_t kStretch = 256;
constexpr char kMinusInt8 = '\x80';  // -128

// Numbers with all bits of the exponent set.
template <class Bits, Bits kExponent>
bool IsNonFinite(Bits bits) {
  return (bits & kExponent) == kExponent;
}

// Negative numbers are the largest as unsigned.
bool IsNoScale(uint32_t bits) { return bits >= 0x7F800000; }

// Scans a whole stretch of fixed length without a branch, so that the loop is
// vectorised.
template <class Bits, bool (*kBad)(Bits)>
bool AnyBad(const char* numbers) {
  Bits bits[kStretch];
  std::memcpy(bits, numbers, sizeof(bits));
  Bits found = 0;
  for (const Bits value : bits) found |= static_cast<Bits>(kBad(value));
  return found != 0;
}

// Index of the first bad number of `count`.
template <class Bits, bool (*kBad)(Bits)>
std::optional<int64_t> FirstBad(const char* numbers, int64_t count) {
  constexpr int64_t kSize = sizeof(Bits);
  for (int64_t i = 0; i < count;) {
    if (count - i >= kStretch && !AnyBad<Bits, kBad>(numbers + i * kSize)) {
      i += kStretch;
      continue;
    }
    for (const int64_t end = std::min(count, i + kStretch); i < end; ++i) {
      Bits bits;
      std::memcpy(&bits, numbers + i * kSize, sizeof(bits));
      if (kBad(bits)) return i;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string_view FaultOf(const TensorInfo& tensor) {
  if (tensor.dtype == DType::kI8) return "is -128";
  return names::IsScale(tensor.name) ? "is negative or not finite" : "is not finite";
}

WeightScan::WeightScan(const SafetensorsHeader& header) : tensors_(header.tensors) {
  if (tensors_.empty()) return;
  at_ = tensors_.front().begin;
  for (size_t i = tensors_.size(); i-- > 0;) {
    const TensorInfo& tensor = tensors_[i];
    Kind kind;
    switch (tensor.dtype) {
      case DType::kF32:
        kind = names::IsScale(tensor.name) ? Kind::kScale : Kind::kFloat;
        break;
      case DType::kBF16:
        kind = Kind::kBf16;
        break;
      case DType::kF16:
        kind = Kind::kFp16;
        break;
      case DType::kI8:
        kind = Kind::kInt8;
        break;
      default:
        continue;
    }
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
  const bool narrow = kind == Kind::kBf16 || kind == Kind::kFp16;
  const int64_t size = narrow ? 2 : 4;
  const auto first_bad = [kind](const char* numbers, int64_t count) {
    switch (kind) {
      case Kind::kScale:
        return FirstBad<uint32_t, IsNoScale>(numbers, count);
      case Kind::kBf16:
        return FirstBad<uint16_t, IsNonFinite<uint16_t, 0x7F80>>(numbers, count);
      case Kind::kFp16:
        return FirstBad<uint16_t, IsNonFinite<uint16_t, 0x7C00>>(numbers, count);
      default:
        return FirstBad<uint32_t, IsNonFinite<uint32_t, 0x7F800000>>(numbers, count);
    }
  };
  std::optional<int64_t> cut_bad;
  if (before % size != 0) {
    const auto rest = std::min<size_t>(size - before % size, bytes.size());
    cut_ += bytes.substr(0, rest);
    const bool whole = static_cast<int64_t>(cut_.size()) == size;
    if (whole && first_bad(cut_.data(), 1)) cut_bad = before / size;
    bytes.remove_prefix(rest);
    before += static_cast<int64_t>(rest);
    if (before % size != 0) return std::nullopt;
  }
  const auto whole = static_cast<int64_t>(bytes.size()) / size;
  cut_ = bytes.substr(static_cast<size_t>(whole * size));
  if (cut_bad) return cut_bad;
  const std::optional<int64_t> index = first_bad(bytes.data(), whole);
  if (!index) return std::nullopt;
  return before / size + *index;
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
    const std::string& name = tensors_[tensor.index].name;
    const bool first = found_.empty() || found_.back().tensor != name;
    if (bad && first) found_.push_back({name, *bad});
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
