// SPDX-License-Identifier: MIT
// A view of tokens that lie in memory or in a mapped file.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace mnemon {

// The integer types that tokens are stored as, by their bytes.
enum class TokenWidth : int32_t { kOne = 1, kTwo = 2, kFour = 4 };

// The narrowest that holds 0 .. vocab-1. REQUIRES: vocab >= 1.
TokenWidth WidthFor(int64_t vocab);

// A value. What it shows is not its own.
class TokenView {
 public:
  // Tokens of a tokenizer.
  TokenView(std::span<const int32_t> tokens);  // NOLINT(google-explicit-constructor)
  // Those in a file called `name`, unsigned, little-endian, from an address that their
  // width divides. They need not be below `vocab`: Append looks at each one.
  TokenView(std::string_view bytes, TokenWidth width, int64_t vocab,
            std::string_view name);

  int64_t size() const { return size_; }
  // REQUIRES: the same of begin and count, here and below: 0 <= begin, 0 <= count,
  // begin + count <= size().
  TokenView Part(int64_t begin, int64_t count) const;
  // Appends `count` tokens from `begin` on. DATA_LOSS names the file and the first that
  // is none of the vocabulary; then nothing is appended.
  absl::Status Append(int64_t begin, int64_t count, std::vector<int64_t>& to) const;
  // They will be needed soon.
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
