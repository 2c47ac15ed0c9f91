// SPDX-License-Identifier: MIT
// The last line of a terminal, which is written again and again in its place while text
// that stays goes above it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mnemon {

// A part of the line. Where the terminal is too narrow for all, those of the largest
// rank are left out first.
struct LinePart {
  std::string text;  // one column per byte
  int rank = 0;
};

// The parts that fit into `columns`, with two spaces between, in their order; what even
// alone is too long is cut.
std::string FitLine(const std::vector<LinePart>& parts, size_t columns);

// Standard output. Owned by one thread; other writers of the terminal add at most a
// line that is left standing.
class LiveLine {
 public:
  // Live where standard output is a terminal that can rewrite a line: not with
  // TERM=dumb or no TERM, nor with NO_COLOR.
  LiveLine();
  // Leaves the line.
  ~LiveLine();
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  bool live() const { return live_; }
  bool shown() const { return !line_.empty(); }
  // Columns that a line may take: where live, one less than the terminal has at this
  // moment, so that it never wraps; elsewhere any number.
  size_t Columns() const;
  // Replaces the line; nothing where not live. `line`: at most Columns() bytes, without
  // control characters.
  void Show(const std::string& line);
  // Writes whole lines, above the line where there is one.
  void Print(const std::string& text);
  // The line stays as it is, and the cursor goes below it. A later Show begins a new
  // one.
  void Leave();

 private:
  const bool live_;
  std::string line_;  // as shown; empty: none
};

}  // namespace mnemon
