// SPDX-License-Identifier: MIT
// GGUF files for tests: valid ones, and ones with any field wrong.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mnemon {

template <class T>
std::string RawBytes(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}
inline std::string GgufString(std::string_view text) {
  return RawBytes(uint64_t{text.size()}) + std::string(text);
}

// A file image of version 3; its parts follow each other in the order in which they
// were added.
class GgufImage {
 public:
  // `value`: the bytes after the number of the type.
  GgufImage& Key(std::string_view key, uint32_t type, const std::string& value) {
    ++keys_;
    values_ += GgufString(key) + RawBytes(type) + value;
    return *this;
  }
  GgufImage& Integer(std::string_view key, uint32_t value) {
    return Key(key, 4, RawBytes(value));
  }
  GgufImage& Number(std::string_view key, float value) {
    return Key(key, 6, RawBytes(value));
  }
  GgufImage& Flag(std::string_view key, bool value) {
    return Key(key, 7, RawBytes(value));
  }
  GgufImage& Text(std::string_view key, std::string_view value) {
    return Key(key, 8, GgufString(value));
  }
  GgufImage& Texts(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes = RawBytes(uint32_t{8}) + RawBytes(uint64_t{values.size()});
    for (const std::string& value : values) bytes += GgufString(value);
    return Key(key, 9, bytes);
  }
  GgufImage& Integers(std::string_view key, const std::vector<int32_t>& values) {
    return Numbers(key, 5, values);
  }
  GgufImage& Floats(std::string_view key, const std::vector<float>& values) {
    return Numbers(key, 6, values);
  }
  // `shape`: the fastest last, as elsewhere. At `offset` if one is given.
  GgufImage& Tensor(std::string_view name, const std::vector<int64_t>& shape,
                    uint32_t type, std::string_view data, int64_t offset = -1) {
    ++tensors_;
    table_ += GgufString(name) + RawBytes(static_cast<uint32_t>(shape.size()));
    for (size_t i = shape.size(); i-- > 0;) table_ += RawBytes(shape[i]);
    data_.resize((data_.size() + 31) / 32 * 32);
    table_ += RawBytes(type);
    table_ += RawBytes(offset < 0 ? static_cast<int64_t>(data_.size()) : offset);
    data_ += data;
    return *this;
  }

  std::string Head() const {
    return "GGUF" + RawBytes(uint32_t{3}) + RawBytes(tensors_) + RawBytes(keys_);
  }
  std::string Build() const {
    std::string file = Head() + values_ + table_;
    file.resize((file.size() + 31) / 32 * 32);
    return file + data_;
  }

 private:
  template <class T>
  GgufImage& Numbers(std::string_view key, uint32_t type,
                     const std::vector<T>& values) {
    std::string bytes = RawBytes(type) + RawBytes(uint64_t{values.size()});
    for (const T value : values) bytes += RawBytes(value);
    return Key(key, 9, bytes);
  }

  uint64_t keys_ = 0, tensors_ = 0;
  std::string values_, table_, data_;
};

}  // namespace mnemon
