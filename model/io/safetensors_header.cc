// SPDX-License-Identifier: MIT
// The header of a safetensors file, parsed from untrusted bytes: every declared size is
// checked against the real one before it is used.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "base/files/json.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/io/safetensors.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

struct DTypeEntry {
  std::string_view name;
  int bits;
};
// In the order of DType.
constexpr std::array<DTypeEntry, 19> kDTypes = {{{"BOOL", 8},
                                                 {"F4", 4},
                                                 {"F6_E2M3", 6},
                                                 {"F6_E3M2", 6},
                                                 {"U8", 8},
                                                 {"I8", 8},
                                                 {"F8_E5M2", 8},
                                                 {"F8_E4M3", 8},
                                                 {"F8_E8M0", 8},
                                                 {"I16", 16},
                                                 {"U16", 16},
                                                 {"F16", 16},
                                                 {"BF16", 16},
                                                 {"I32", 32},
                                                 {"U32", 32},
                                                 {"F32", 32},
                                                 {"F64", 64},
                                                 {"I64", 64},
                                                 {"U64", 64}}};
static_assert(kDTypes.size() == static_cast<size_t>(DType::kU64) + 1);

std::optional<DType> FindDType(std::string_view name) {
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

absl::Status Fault(std::string_view text) {
  return absl::InvalidArgumentError(StrCat("safetensors: ", text));
}

absl::Status TensorFault(std::string_view name, std::string_view text) {
  return Fault(StrCat("tensor ", Quoted(name), ": ", text));
}

// Parses the header as events, directly into tensor entries: a header of a million
// tensors makes no tree, and nesting beyond the four levels of the format ends the
// parse.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(SafetensorsHeader& header) : header_(header) {}
  const std::string& fault() const { return fault_; }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_integer(number_integer_t) override {
    return Unexpected("a negative number");
  }
  bool number_float(number_float_t, const string_t& text) override {
    return Unexpected(StrCat("the number ", text.substr(0, 40)));
  }
  bool binary(binary_t&) override { return Unexpected("binary"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kShape && place_ != Place::kOffsets) {
      return Unexpected("a number");
    }
    if (value > static_cast<uint64_t>(INT64_MAX)) {
      return Unexpected(StrCat("the number ", value));
    }
    const int64_t number = static_cast<int64_t>(value);
    if (place_ == Place::kShape) {
      if (Tensor().shape.size() == kMaxSafetensorsRank) {
        return TensorFail(StrCat("more than ", kMaxSafetensorsRank, " dimensions"));
      }
      Tensor().shape.push_back(number);
      return true;
    }
    if (offsets_ == 2) return TensorFail("data_offsets holds more than two numbers");
    (offsets_ == 0 ? Tensor().begin : Tensor().end) = number;
    ++offsets_;
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      metadata_bytes_ += static_cast<int64_t>(value.size());
      if (metadata_bytes_ > kMaxSafetensorsMetadata) {
        return Fail(StrCat("__metadata__ exceeds ", kMaxSafetensorsMetadata, " bytes"));
      }
      if (HasNul(value)) return Fail("NUL in __metadata__ entry " + Quoted(key_));
      header_.metadata[key_] = std::move(value);
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") return Unexpected("a string");
    const std::optional<DType> type = FindDType(value);
    if (!type) return TensorFail("unknown dtype " + Quoted(value));
    Tensor().dtype = *type;
    return true;
  }

  bool key(string_t& name) override {
    if (HasNul(name)) return Fail("NUL in name " + Quoted(name));
    if (place_ == Place::kTensor) {
      const uint8_t bit = name == "dtype"          ? kDTypeBit
                          : name == "shape"        ? kShapeBit
                          : name == "data_offsets" ? kOffsetsBit
                                                   : 0;
      if (bit == 0) return TensorFail("unknown key " + Quoted(name));
      if (seen_ & bit) return TensorFail("duplicate key " + Quoted(name));
      seen_ |= bit;
    } else if (place_ == Place::kMetadata) {
      if (header_.metadata.contains(name)) {
        return Fail("duplicate key " + Quoted(name) + " in __metadata__");
      }
      metadata_bytes_ += static_cast<int64_t>(name.size()) + kEntryOverhead;
    }
    key_ = std::move(name);
    return true;
  }

  bool start_object(size_t) override {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kRoot;
        return true;
      case Place::kRoot:
        if (key_ == "__metadata__") {
          if (metadata_seen_) return Fail("duplicate key '__metadata__'");
          metadata_seen_ = true;
          place_ = Place::kMetadata;
          return true;
        }
        header_.tensors.emplace_back().name = std::move(key_);
        place_ = Place::kTensor;
        seen_ = 0;
        offsets_ = 0;
        return true;
      default:
        return Unexpected("an object");
    }
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      if (seen_ != (kDTypeBit | kShapeBit | kOffsetsBit)) {
        return TensorFail(StrCat("missing key ", !(seen_ & kDTypeBit) ? "dtype"
                                                 : !(seen_ & kShapeBit)
                                                     ? "shape"
                                                     : "data_offsets"));
      }
    }
    place_ = place_ == Place::kRoot ? Place::kStart : Place::kRoot;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::kTensor && key_ == "shape") {
      place_ = Place::kShape;
    } else if (place_ == Place::kTensor && key_ == "data_offsets") {
      place_ = Place::kOffsets;
    } else {
      return Unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsets && offsets_ != 2) {
      return TensorFail("data_offsets must hold two numbers");
    }
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& fault) override {
    return Fail(StrCat("header is not valid JSON at its byte ", position, ": ",
                       DescribeJsonFault(fault)));
  }

 private:
  enum class Place { kStart, kRoot, kMetadata, kTensor, kShape, kOffsets };
  static constexpr int64_t kEntryOverhead = 64;  // per node of a map
  static constexpr uint8_t kDTypeBit = 1, kShapeBit = 2, kOffsetsBit = 4;

  static bool HasNul(std::string_view text) { return text.find('\0') != text.npos; }

  TensorInfo& Tensor() { return header_.tensors.back(); }
  bool Fail(std::string fault) {
    fault_ = std::move(fault);
    return false;
  }
  bool TensorFail(std::string_view fault) {
    return Fail(StrCat("tensor ", Quoted(Tensor().name), ": ", fault));
  }
  bool Unexpected(std::string_view what) {
    switch (place_) {
      case Place::kStart:
        return Fail(StrCat("header must be an object, found ", what));
      case Place::kRoot:
        return Fail(StrCat("entry ", Quoted(key_), " must be an object, found ", what));
      case Place::kMetadata:
        return Fail(StrCat("__metadata__ entry ", Quoted(key_),
                           " must be a string, found ", what));
      case Place::kTensor:
        return TensorFail(StrCat("unexpected ", what, " for ", Quoted(key_)));
      case Place::kShape:
      case Place::kOffsets:
        break;
    }
    return TensorFail(StrCat(place_ == Place::kShape ? "shape" : "data_offsets",
                             " must hold integers from 0 to 2^63-1, found ", what));
  }

  SafetensorsHeader& header_;
  Place place_ = Place::kStart;
  std::string key_;
  uint8_t seen_ = 0;
  int offsets_ = 0;
  bool metadata_seen_ = false;
  int64_t metadata_bytes_ = 0;
  std::string fault_;
};

absl::Status CheckSpan(const TensorInfo& tensor, int64_t data_bytes) {
  if (tensor.begin > tensor.end) {
    return TensorFault(tensor.name, StrCat("data_offsets are reversed: ", tensor.begin,
                                           " to ", tensor.end));
  }
  if (tensor.end > data_bytes) {
    return TensorFault(tensor.name, StrCat("data ends at ", tensor.end,
                                           ", past the end of the file's ", data_bytes,
                                           " bytes of data"));
  }
  const std::optional<int64_t> bytes = TensorBytes(tensor.dtype, tensor.shape);
  if (bytes == tensor.end - tensor.begin) return absl::OkStatus();
  const std::string what = Describe(tensor.dtype, tensor.shape);
  if (!bytes) return TensorFault(tensor.name, what + ": size overflows");
  if (*bytes < 0) return TensorFault(tensor.name, what + " does not end on a byte");
  return TensorFault(tensor.name,
                     StrCat(what, " needs ", *bytes, " bytes, data_offsets span ",
                            tensor.end - tensor.begin));
}

std::vector<uint32_t> OrderByName(const std::vector<TensorInfo>& tensors) {
  std::vector<uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return tensors[a].name < tensors[b].name; });
  return order;
}

absl::Status CheckNames(const SafetensorsHeader& header) {
  for (size_t i = 1; i < header.by_name.size(); ++i) {
    const std::string& name = header.tensors[header.by_name[i]].name;
    if (header.tensors[header.by_name[i - 1]].name == name) {
      return TensorFault(name, "duplicate name");
    }
  }
  return absl::OkStatus();
}

// REQUIRES: sorted by data, each span checked.
absl::Status CheckCoverage(const std::vector<TensorInfo>& tensors, int64_t data_bytes) {
  int64_t covered = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin != covered) {
      return TensorFault(
          tensor.name,
          StrCat("data begins at ", tensor.begin, ", the data before it ends at ",
                 covered, tensor.begin < covered ? ": overlap" : ": hole"));
    }
    covered = tensor.end;
  }
  if (covered != data_bytes) {
    return Fault(StrCat(data_bytes - covered, " trailing bytes belong to no tensor"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view Name(DType type) { return kDTypes[static_cast<size_t>(type)].name; }
int Bits(DType type) { return kDTypes[static_cast<size_t>(type)].bits; }

// Bytes of a tensor by its type and shape; nullopt on overflow. Sub-byte types may not
// end within a byte: that is reported as -1.
std::optional<int64_t> TensorBytes(DType type, std::span<const int64_t> shape) {
  int64_t bits = Bits(type);
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bits, size, &bits)) return std::nullopt;
  }
  return bits % 8 == 0 ? bits / 8 : -1;
}

std::string Describe(DType type, std::span<const int64_t> shape) {
  return StrCat(Name(type), " [", StrJoin(shape, ", "), "]");
}

int64_t TensorInfo::elements() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensors(std::string_view file) {
  constexpr size_t kLengthBytes = 8;
  if (file.size() < kLengthBytes) {
    return Fault(
        StrCat("file of ", file.size(), " bytes is too short for a header length"));
  }
  uint64_t length;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeader)) {
    return Fault(StrCat("header length ", length, " exceeds ", kMaxSafetensorsHeader));
  }
  if (length > file.size() - kLengthBytes) {
    return Fault(StrCat("header length ", length, " exceeds the file of ", file.size(),
                        " bytes"));
  }
  const std::string_view text = file.substr(kLengthBytes, length);
  if (!text.starts_with('{')) {
    return Fault(length == 0 ? "header length is 0" : "header does not start with '{'");
  }
  // The parser takes NUL for the end of its input and would ignore what follows.
  if (const size_t nul = text.find('\0'); nul != text.npos) {
    return Fault(StrCat("NUL at byte ", nul, " of the header"));
  }
  SafetensorsHeader header;
  HeaderReader reader(header);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) {
    return Fault(reader.fault());
  }

  const int64_t data_begin = static_cast<int64_t>(kLengthBytes + length);
  const int64_t data_bytes = static_cast<int64_t>(file.size()) - data_begin;
  for (const TensorInfo& tensor : header.tensors) {
    MNEMON_RETURN_IF_ERROR(CheckSpan(tensor, data_bytes));
  }
  // Sorted in place, since a stable sort would copy the entries. Only empty tensors can
  // tie.
  const auto precedes = [](const TensorInfo& a, const TensorInfo& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    return a.end != b.end ? a.end < b.end : a.name < b.name;
  };
  std::sort(header.tensors.begin(), header.tensors.end(), precedes);
  header.by_name = OrderByName(header.tensors);
  MNEMON_RETURN_IF_ERROR(CheckNames(header));
  MNEMON_RETURN_IF_ERROR(CheckCoverage(header.tensors, data_bytes));
  for (TensorInfo& tensor : header.tensors) {
    tensor.begin += data_begin;
    tensor.end += data_begin;
  }
  return header;
}

}  // namespace mnemon
