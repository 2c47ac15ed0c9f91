// SPDX-License-Identifier: MIT
// Search for stop strings in a text that arrives in pieces.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mnemon {

// Takes a text in pieces of any size and returns it up to the first stop string: the
// one that ends first, the longest of those. Text that may be the beginning of one is
// held back, so the output does not depend on the pieces (Knuth, Morris, Pratt, 1977:
// constant time per byte and string). A value. Text and strings are UTF-8: the output
// ends between characters whenever the pieces do.
class StopText {
 public:
  // No stop strings.
  StopText() = default;
  // REQUIRES: no string is empty.
  explicit StopText(std::vector<std::string> strings);

  // Returns the text that can no longer be part of a stop string; nothing after a
  // match.
  std::string Push(std::string_view text);
  // Ends the text and returns what was held back; nothing after a match.
  std::string Finish();
  // The string that was found.
  const std::optional<std::string>& found() const { return found_; }

 private:
  struct Automaton {
    std::string string;
    // borders[n]: length of the longest proper border of the first n bytes.
    std::vector<size_t> borders;
    size_t matched = 0;  // bytes of `string` that the text ends with
  };
  static void Advance(Automaton& automaton, char byte);

  std::vector<Automaton> automata_;
  std::string held_;
  std::optional<std::string> found_;
};

}  // namespace mnemon
