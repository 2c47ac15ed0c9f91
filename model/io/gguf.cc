// SPDX-License-Identifier: MIT
#include "model/io/gguf.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace mnemon {

static_assert(std::endian::native == std::endian::little,
              "numbers are little-endian in the file and copied as they are");

namespace {

constexpr int64_t kMaxGgufName = 1024;  // bytes of a key or a name
constexpr uint32_t kMaxGgufRank = 4, kMaxAlignment = 1 << 20;
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

enum ValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

class GgufParser {
 public:
  explicit GgufParser(std::string_view file) : file_(file) {}

  absl::StatusOr<Gguf> Parse();

 private:
  absl::Status Fault(std::string_view what) const {
    return absl::InvalidArgumentError(
        StrCat("gguf: ", part_, part_.empty() ? "" : ": ", what));
  }
  int64_t left() const {
    return std::min(static_cast<int64_t>(file_.size()), kMaxGgufHeader) - at_;
  }
  absl::StatusOr<std::string_view> Bytes(uint64_t count);
  template <class T>
  absl::StatusOr<T> Take();
  absl::StatusOr<std::string> TakeString();
  absl::StatusOr<std::string> TakeName();
  absl::StatusOr<GgufValue> TakeValue();
  absl::StatusOr<GgufValue> TakeArray();
  // Calls take(value) with a value of a number's or a flag's type.
  template <class Taken>
  absl::Status TakeNumber(uint32_t type, const Taken& taken);
  absl::StatusOr<GgufTensor> TakeTensor(int64_t alignment);
  absl::StatusOr<int64_t> Alignment(const Gguf& gguf);
  absl::Status Place(Gguf& gguf, int64_t alignment);

  const std::string_view file_;
  int64_t at_ = 0;
  int64_t elements_ = 0;  // elements of arrays
  std::string part_;      // current part, for messages
};

absl::StatusOr<std::string_view> GgufParser::Bytes(uint64_t count) {
  if (count > static_cast<uint64_t>(left())) {
    return Fault(StrCat(count, " bytes at byte ", at_, ", ", left(), " are left",
                        left() + at_ == kMaxGgufHeader ? " of a header's most" : ""));
  }
  const std::string_view bytes =
      file_.substr(static_cast<size_t>(at_), static_cast<size_t>(count));
  at_ += static_cast<int64_t>(count);
  return bytes;
}

template <class T>
absl::StatusOr<T> GgufParser::Take() {
  MNEMON_ASSIGN_OR_RETURN(const std::string_view bytes, Bytes(sizeof(T)));
  T value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

absl::StatusOr<std::string> GgufParser::TakeString() {
  MNEMON_ASSIGN_OR_RETURN(const uint64_t length, Take<uint64_t>());
  MNEMON_ASSIGN_OR_RETURN(const std::string_view bytes, Bytes(length));
  return std::string(bytes);
}

absl::StatusOr<std::string> GgufParser::TakeName() {
  MNEMON_ASSIGN_OR_RETURN(std::string name, TakeString());
  const bool sound = !name.empty() && name.size() <= kMaxGgufName &&
                     IsValidUtf8(name) && name.find('\0') == name.npos;
  if (sound) return name;
  return Fault(StrCat("the name ", Quoted(name), " is empty, longer than ",
                      kMaxGgufName, " bytes, or not UTF-8"));
}

template <class Taken>
absl::Status GgufParser::TakeNumber(uint32_t type, const Taken& taken) {
  const auto take = [&]<class T>(T) -> absl::Status {
    MNEMON_ASSIGN_OR_RETURN(const T value, Take<T>());
    taken(value);
    return absl::OkStatus();
  };
  switch (type) {
    case kUint8:
      return take(uint8_t{});
    case kInt8:
      return take(int8_t{});
    case kUint16:
      return take(uint16_t{});
    case kInt16:
      return take(int16_t{});
    case kUint32:
      return take(uint32_t{});
    case kInt32:
      return take(int32_t{});
    case kFloat32:
      return take(float{});
    case kUint64:
      return take(uint64_t{});
    case kInt64:
      return take(int64_t{});
    case kFloat64:
      return take(double{});
    case kBool: {
      MNEMON_ASSIGN_OR_RETURN(const uint8_t value, Take<uint8_t>());
      if (value > 1) return Fault(StrCat("the flag is ", value, ", neither 0 nor 1"));
      taken(value != 0);
      return absl::OkStatus();
    }
    default:
      return Fault(StrCat("type ", type, " of a value is not known"));
  }
}

absl::StatusOr<GgufValue> GgufParser::TakeArray() {
  MNEMON_ASSIGN_OR_RETURN(const uint32_t type, Take<uint32_t>());
  MNEMON_ASSIGN_OR_RETURN(const uint64_t count, Take<uint64_t>());
  // No element is shorter than one byte.
  if (count > static_cast<uint64_t>(std::min(left(), kMaxGgufElements - elements_))) {
    return Fault(StrCat("an array of ", count, " elements with ", left(),
                        " bytes left; all arrays may have ", kMaxGgufElements));
  }
  elements_ += static_cast<int64_t>(count);
  if (type == kArray) return Fault("arrays of arrays are not supported");
  if (type == kString) {
    std::vector<std::string> strings;
    for (uint64_t i = 0; i < count; ++i) {
      MNEMON_ASSIGN_OR_RETURN(std::string one, TakeString());
      strings.push_back(std::move(one));
    }
    return strings;
  }
  if (type == kFloat32 || type == kFloat64 || type == kUint64) {
    std::vector<double> numbers;
    for (uint64_t i = 0; i < count; ++i) {
      MNEMON_RETURN_IF_ERROR(TakeNumber(
          type, [&](auto value) { numbers.push_back(static_cast<double>(value)); }));
    }
    return numbers;
  }
  std::vector<int64_t> numbers;
  for (uint64_t i = 0; i < count; ++i) {
    MNEMON_RETURN_IF_ERROR(TakeNumber(
        type, [&](auto value) { numbers.push_back(static_cast<int64_t>(value)); }));
  }
  // The type of an empty array must be known as well.
  if (count == 0 && type > kFloat64) {
    return Fault(StrCat("type ", type, " of a value is not known"));
  }
  return numbers;
}

absl::StatusOr<GgufValue> GgufParser::TakeValue() {
  MNEMON_ASSIGN_OR_RETURN(const uint32_t type, Take<uint32_t>());
  if (type == kString) return TakeString();
  if (type == kArray) return TakeArray();
  GgufValue out;
  MNEMON_RETURN_IF_ERROR(TakeNumber(type, [&](auto value) {
    using T = decltype(value);
    if constexpr (std::is_same_v<T, uint64_t>) {
      if (value > static_cast<uint64_t>(kMaxInt64)) {
        out = static_cast<double>(value);
        return;
      }
    }
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      out = static_cast<int64_t>(value);
    } else {
      out = value;
    }
  }));
  return out;
}

absl::StatusOr<GgufTensor> GgufParser::TakeTensor(int64_t alignment) {
  GgufTensor tensor;
  part_ = "the table of tensors";
  MNEMON_ASSIGN_OR_RETURN(tensor.name, TakeName());
  part_ = StrCat("tensor ", Quoted(tensor.name));
  MNEMON_ASSIGN_OR_RETURN(const uint32_t rank, Take<uint32_t>());
  if (rank < 1 || rank > kMaxGgufRank) {
    return Fault(StrCat(rank, " dimensions, supported: 1 to ", kMaxGgufRank));
  }
  int64_t count = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    MNEMON_ASSIGN_OR_RETURN(const uint64_t size, Take<uint64_t>());
    if (size < 1 || size > static_cast<uint64_t>(kMaxInt64 / count)) {
      return Fault(StrCat("a dimension of ", size, ", which is 0 or too large"));
    }
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
    count *= static_cast<int64_t>(size);
  }
  MNEMON_ASSIGN_OR_RETURN(const uint32_t type, Take<uint32_t>());
  tensor.format = FindBlockFormat(type);
  if (tensor.format == nullptr) {
    return Fault(StrCat("type ", NameOfBlockType(type),
                        " is not supported; supported: ", SupportedBlockTypes()));
  }
  const BlockFormat& format = *tensor.format;
  if (tensor.shape.back() % format.numbers != 0) {
    return Fault(StrCat("rows of ", tensor.shape.back(), " numbers are no blocks of ",
                        format.numbers, " as ", format.name, " has them"));
  }
  if (count / format.numbers > kMaxInt64 / format.bytes) {
    return Fault(StrCat(count, " numbers are too many"));
  }
  MNEMON_ASSIGN_OR_RETURN(const uint64_t offset, Take<uint64_t>());
  if (offset % static_cast<uint64_t>(alignment) != 0) {
    return Fault(StrCat("offset ", offset, " is not a multiple of ", alignment));
  }
  // If this large, both are past the end of any file.
  const int64_t bytes = count / format.numbers * format.bytes;
  tensor.begin = static_cast<int64_t>(std::min<uint64_t>(offset, kMaxInt64 / 4));
  tensor.end = tensor.begin + std::min(bytes, kMaxInt64 / 4);
  return tensor;
}

absl::StatusOr<int64_t> GgufParser::Alignment(const Gguf& gguf) {
  constexpr char kKey[] = "general.alignment";
  if (!gguf.values.contains(kKey)) return 32;
  const auto* const value = gguf.Find<int64_t>(kKey);
  part_ = StrCat("key ", Quoted(kKey));
  if (value == nullptr || *value < 1 || *value > kMaxAlignment ||
      !std::has_single_bit(static_cast<uint64_t>(*value))) {
    return Fault(StrCat("no power of two up to ", kMaxAlignment));
  }
  return *value;
}

// Converts offsets to be from the start of the file, and checks them against it and
// each other.
absl::Status GgufParser::Place(Gguf& gguf, int64_t alignment) {
  const auto size = static_cast<int64_t>(file_.size());
  const int64_t data = (at_ + alignment - 1) / alignment * alignment;
  std::vector<const GgufTensor*> order;
  for (GgufTensor& tensor : gguf.tensors) {
    tensor.begin += data;
    tensor.end += data;
    part_ = StrCat("tensor ", Quoted(tensor.name));
    if (tensor.end > size) {
      return Fault(StrCat("its data ends after byte ", size, ", the end of the file"));
    }
    order.push_back(&tensor);
  }
  std::ranges::sort(order, {}, &GgufTensor::begin);
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->end <= order[i]->begin) continue;
    part_ = StrCat("tensor ", Quoted(order[i]->name));
    return Fault(StrCat("its data overlaps that of ", Quoted(order[i - 1]->name)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Gguf> GgufParser::Parse() {
  MNEMON_ASSIGN_OR_RETURN(const std::string_view magic, Bytes(4));
  if (magic != kGgufMagic) return Fault(StrCat("it begins with ", Quoted(magic)));
  MNEMON_ASSIGN_OR_RETURN(const uint32_t version, Take<uint32_t>());
  if (version != 2 && version != 3) {
    const bool swapped = version != 0 && (version & 0xFFFF) == 0;
    return Fault(StrCat("version ", version, swapped ? " (or big-endian)" : "",
                        " is not supported; supported: 2 and 3, little-endian"));
  }
  MNEMON_ASSIGN_OR_RETURN(const uint64_t tensors, Take<uint64_t>());
  MNEMON_ASSIGN_OR_RETURN(const uint64_t keys, Take<uint64_t>());
  Gguf gguf;
  for (uint64_t i = 0; i < keys; ++i) {
    part_ = StrCat("key ", i, " of ", keys);
    MNEMON_ASSIGN_OR_RETURN(std::string key, TakeName());
    part_ = StrCat("key ", Quoted(key));
    MNEMON_ASSIGN_OR_RETURN(GgufValue value, TakeValue());
    if (!gguf.values.emplace(std::move(key), std::move(value)).second) {
      return Fault("is there twice");
    }
  }
  MNEMON_ASSIGN_OR_RETURN(const int64_t alignment, Alignment(gguf));
  std::set<std::string> names;
  for (uint64_t i = 0; i < tensors; ++i) {
    MNEMON_ASSIGN_OR_RETURN(GgufTensor tensor, TakeTensor(alignment));
    if (!names.insert(tensor.name).second) return Fault("is there twice");
    gguf.tensors.push_back(std::move(tensor));
  }
  MNEMON_RETURN_IF_ERROR(Place(gguf, alignment));
  return gguf;
}

}  // namespace

std::optional<double> Gguf::Number(std::string_view key) const {
  double number = 0;
  if (const auto* const integer = Find<int64_t>(key)) {
    number = static_cast<double>(*integer);
  } else if (const auto* const wide = Find<double>(key)) {
    number = *wide;
  } else if (const auto* const narrow = Find<float>(key)) {
    if (!std::isfinite(*narrow)) return std::nullopt;
    char text[32];
    const auto end = std::to_chars(text, text + sizeof(text), *narrow).ptr;
    std::from_chars(text, end, number);
  } else {
    return std::nullopt;
  }
  if (!std::isfinite(number)) return std::nullopt;
  return number;
}

const GgufTensor* Gguf::FindTensor(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &GgufTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

absl::StatusOr<Gguf> ParseGguf(std::string_view file) {
  return GgufParser(file).Parse();
}

}  // namespace mnemon
