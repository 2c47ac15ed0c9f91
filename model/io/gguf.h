// SPDX-License-Identifier: MIT
// The GGUF format of the project ggml, versions 2 and 3, little-endian: typed keys and
// values, a table of tensors, their data. The reader accepts untrusted files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "model/io/gguf_blocks.h"

namespace mnemon {

// A value: integers of all widths are int64_t, larger ones and float64 double; a
// float32 stays one, since its decimal meaning matters: see Gguf::Number. Arrays of
// flags are integers.
using GgufValue =
    std::variant<bool, int64_t, float, double, std::string, std::vector<int64_t>,
                 std::vector<double>, std::vector<std::string>>;

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;  // 1 to 4 positive sizes, the fastest last
  const BlockFormat* format = nullptr;
  int64_t begin = 0, end = 0;  // bytes, from the start of the file
};

struct Gguf {
  std::map<std::string, GgufValue, std::less<>> values;
  std::vector<GgufTensor> tensors;  // as in the table

  // The value of a key as this type; null if absent or of another type.
  template <class T>
  const T* Find(std::string_view key) const {
    const auto found = values.find(key);
    return found == values.end() ? nullptr : std::get_if<T>(&found->second);
  }
  // A finite number. A float32 is read as the shortest decimal that it is nearest to:
  // 1e-05.
  std::optional<double> Number(std::string_view key) const;
  const GgufTensor* FindTensor(std::string_view name) const;  // null if absent
};

// Limits of a file: bytes before the data, and elements of all arrays.
inline constexpr int64_t kMaxGgufHeader = 100'000'000;
inline constexpr int64_t kMaxGgufElements = int64_t{1} << 24;

// Parses the file image `file`, reading only the part before the data, each byte once.
// Counts and lengths are compared with the remaining bytes before anything is
// allocated; keys and names are unique; tensors are aligned, within the file and
// disjoint. INVALID_ARGUMENT names the key or tensor and the fault, and the supported
// versions and types of tensors. Strings may be any bytes, names are UTF-8.
absl::StatusOr<Gguf> ParseGguf(std::string_view file);

inline constexpr char kGgufMagic[] = "GGUF";

}  // namespace mnemon
