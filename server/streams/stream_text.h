// SPDX-License-Identifier: MIT
// The text of a stream's tokens, up to a stop string.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/text/detokenizer.h"
#include "model/text/stop_text.h"
#include "model/text/tokenizer.h"

namespace mnemon {

// Incomplete characters, and text that may yet be part of a stop string, are held back.
// Not safe for concurrent use: owned by the consumer.
class StreamText {
 public:
  // Without a `tokenizer` (null) there is no text. It outlives the object.
  StreamText(const Tokenizer* tokenizer, std::vector<std::string> stop_strings)
      : tokenizer_(tokenizer), stop_(std::move(stop_strings)) {}

  // Appends to `text` what the next tokens complete, as UTF-8. Special tokens add
  // nothing. Throws std::bad_alloc.
  void Add(std::span<const int32_t> tokens, std::string& text);
  // Takes the next tokens, whose text the consumer has already. Throws std::bad_alloc.
  void Skip(std::span<const int32_t> tokens);
  // Appends what was held back. No tokens follow. Throws std::bad_alloc.
  void Finish(std::string& text);

 private:
  const Tokenizer* const tokenizer_;
  Utf8Stream utf8_;
  StopText stop_;
};

}  // namespace mnemon
