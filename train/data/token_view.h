// SPDX-License-Identifier: MIT
// A view of tokens in memory or in a mapped file.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace mnemon {

// Bytes of the integers that tokens are stored as.
enum class TokenWidth : int32_t { kOne = 1, kTwo = 2, kFour = 4 };

// The narrowest width that holds 0 .. vocab-1. REQUIRES: vocab >= 1.
TokenWidth WidthFor(int64_t vocab);

// A value that does not own the tokens.
class TokenView {
 public:
  // Tokens made by a tokenizer, so all valid.
  TokenView(std::span<const int32_t> tokens);  // NOLINT(google-explicit-constructor)
  // Tokens of a file called `name`, unsigned, little-endian, at an address that is a
  // multiple of their width. They need not be below `vocab`: Append checks each.
  TokenView(std::string_view bytes, TokenWidth width, int64_t vocab,
            std::string_view name);

  int64_t size() const { return size_; }
  // REQUIRES, here and below: 0 <= begin, 0 <= count, begin + count <= size().
  TokenView Part(int64_t begin, int64_t count) const;
  // Appends `count` tokens from `begin` on to `to`. DATA_LOSS names the file and the
  // first token outside the vocabulary; then nothing is appended.
  absl::Status Append(int64_t begin, int64_t count, std::vector<int64_t>& to) const;
  // Tells the system that these tokens will be needed soon.
  void ReadAhead(int64_t begin, int64_t count) const;

 private:
  const char* data_;
  TokenWidth width_;
  int64_t size_;
  int64_t vocab_;
  std::string_view name_;
  int64_t first_ = 0;  // number of the first token in its file
};

}  // namespace mnemon
