// SPDX-License-Identifier: MIT
// The GGUF format of the project ggml, versions 2 and 3, little-endian: typed keys and
// values, a table of tensors, their data. A reader for hostile files.
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

// A value: integers of all widths are int64_t, those beyond it and float64 double; a
// float32 stays one, for what number was meant: see Gguf::Number. Arrays of flags are
// of integers.
using GgufValue =
    std::variant<bool, int64_t, float, double, std::string, std::vector<int64_t>,
                 std::vector<double>, std::vector<std::string>>;

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;  // 1 to 4 sizes above 0, the fastest last
  const BlockFormat* format = nullptr;
  int64_t begin = 0, end = 0;  // bytes, from the start of the file
};

struct Gguf {
  std::map<std::string, GgufValue, std::less<>> values;
  std::vector<GgufTensor> tensors;  // as in the table

  // The value of a key as such a type; null where it is absent or of another one.
  template <class T>
  const T* Find(std::string_view key) const {
    const auto found = values.find(key);
    return found == values.end() ? nullptr : std::get_if<T>(&found->second);
  }
  // A finite one. A float32 is the number of the shortest decimal that it is nearest
  // to: 1e-05.
  std::optional<double> Number(std::string_view key) const;
  const GgufTensor* FindTensor(std::string_view name) const;  // null when absent
};

// Bytes before the data, and elements of all arrays, that a file may have.
inline constexpr int64_t kMaxGgufHeader = 100'000'000;
inline constexpr int64_t kMaxGgufElements = int64_t{1} << 24;

// Checks the file image `file`, of which the part before the data alone is read, each
// byte once. Counts and lengths are compared with the bytes that are left before
// anything is allocated; keys and names are unique; tensors lie aligned within the file
// and apart. INVALID_ARGUMENT names the key or tensor and the fault, and what is
// supported of versions and of types of tensors. Strings may be any bytes, names are
// UTF-8.
absl::StatusOr<Gguf> ParseGguf(std::string_view file);

inline constexpr char kGgufMagic[] = "GGUF";

}  // namespace mnemon
