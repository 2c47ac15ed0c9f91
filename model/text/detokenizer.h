// SPDX-License-Identifier: MIT
// Incremental detokenizer: bytes of tokens in, text that is always complete UTF-8 out.
#pragma once

#include <string>
#include <string_view>

namespace mnemon {

// Holds back the incomplete tail of a byte stream until it is a character. Bytes that
// can never become one turn into U+FFFD. A value: copy it to keep a session's tail.
class Utf8Stream {
 public:
  // Returns the text that `bytes` complete.
  std::string Push(std::string_view bytes);
  // Ends the stream: an incomplete tail becomes one U+FFFD.
  std::string Finish();
  const std::string& tail() const { return tail_; }

 private:
  std::string tail_;  // at most 3 bytes: a proper prefix of a UTF-8 sequence
};

}  // namespace mnemon
