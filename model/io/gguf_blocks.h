// SPDX-License-Identifier: MIT
// How tensors of a GGUF file store numbers: plain, or in blocks of one scale and small
// integers (ggml-common.h of llama.cpp; PyPI's gguf, quants.py).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mnemon {

struct BlockFormat {
  std::string_view name;  // "Q4_K"
  int64_t numbers = 1;    // of a block
  int64_t bytes = 1;      // of it
  // Writes the numbers of `blocks` blocks, which lie one behind the other at any
  // address: those of gguf.quants.dequantize, bit for bit but for the bits of NaN.
  void (*decode)(const char* from, int64_t blocks, float* to) = nullptr;

  bool plain() const { return numbers == 1; }
};

// By the number that a file has for it. Null: not supported. What it points to stays.
const BlockFormat* FindBlockFormat(uint32_t type);
// "IQ4_XS", or the number where nobody knows a name; and the names of those supported.
std::string NameOfBlockType(uint32_t type);
std::string SupportedBlockTypes();

}  // namespace mnemon
