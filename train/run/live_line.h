// SPDX-License-Identifier: MIT
// The last line of a terminal, rewritten in place. Permanent text is printed above it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mnemon {

// A part of the line. If the terminal is too narrow for all parts, those with the
// largest rank are left out first.
struct LinePart {
  std::string text;  // one column per byte
  int rank = 0;
};

// The parts that fit into `columns`, in their order, with two spaces between them. A
// part that is too long by itself is cut.
std::string FitLine(const std::vector<LinePart>& parts, size_t columns);

// Writes to standard output. Owned by one thread. If others write to the terminal, at
// worst an old line stays on it.
class LiveLine {
 public:
  // Live if standard output is a terminal that can rewrite a line: TERM is set and not
  // "dumb", NO_COLOR is not set.
  LiveLine();
  // Leaves the line.
  ~LiveLine();
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  bool live() const { return live_; }
  bool shown() const { return !line_.empty(); }
  // Columns that a line may take. If live, one less than the terminal has now, so that
  // the line never wraps; else unlimited.
  size_t Columns() const;
  // Replaces the line; does nothing if not live. `line`: at most Columns() bytes,
  // without control characters.
  void Show(const std::string& line);
  // Writes whole lines, above the live line if there is one.
  void Print(const std::string& text);
  // Keeps the line as it is and moves the cursor below it. A later Show begins a new
  // line.
  void Leave();

 private:
  const bool live_;
  std::string line_;  // as shown; empty if none is
};

}  // namespace mnemon
