// SPDX-License-Identifier: MIT
// A text that ends where one of several strings first appears in it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mnemon {

// Takes a text in pieces of any size and gives it back up to the first stop string: the
// one whose last byte comes first, the longest of those. Text that may yet turn out to
// be the beginning of one is held back, so what comes out does not depend on the pieces
// (Knuth, Morris, Pratt, 1977: constant time per byte and string). A value. Text and
// strings are UTF-8: what comes out then ends between characters whenever the pieces
// do.
class StopText {
 public:
  // Ends nowhere.
  StopText() = default;
  // REQUIRES: no string is empty.
  explicit StopText(std::vector<std::string> strings);

  // What can no longer be part of a stop string. Nothing after a match.
  std::string Push(std::string_view text);
  // The end of the text: what was held back. Nothing after a match.
  std::string Finish();
  // Which string was found.
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
