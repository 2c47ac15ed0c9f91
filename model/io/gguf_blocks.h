// SPDX-License-Identifier: MIT
// Storage formats of numbers in a GGUF file: plain, or blocks of one scale and small
// integers (ggml-common.h of llama.cpp; PyPI's gguf, quants.py).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mnemon {

struct BlockFormat {
  std::string_view name;  // "Q4_K"
  int64_t numbers = 1;    // per block
  int64_t bytes = 1;      // per block
  // Decodes `blocks` consecutive blocks at any address: the same numbers as
  // gguf.quants.dequantize, bit for bit except for the bits of NaN.
  void (*decode)(const char* from, int64_t blocks, float* to) = nullptr;

  bool plain() const { return numbers == 1; }
};

// The format of a type number in a file; null if not supported. The result is static.
const BlockFormat* FindBlockFormat(uint32_t type);
// "IQ4_XS", or the number if it has no known name, and the names of the supported
// types.
std::string NameOfBlockType(uint32_t type);
std::string SupportedBlockTypes();

}  // namespace mnemon
