// SPDX-License-Identifier: MIT
#include "train/run/live_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace mnemon {
namespace {

constexpr size_t kUnknownColumns = 80;
constexpr size_t kLeastColumns = 8;
constexpr char kClear[] = "\r\033[K";

bool CanRewrite() {
  const char* const term = std::getenv("TERM");
  const char* const no_colour = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 && term != nullptr && *term != '\0' &&
         std::string_view(term) != "dumb" &&
         (no_colour == nullptr || *no_colour == '\0');
}

}  // namespace

std::string FitLine(const std::vector<LinePart>& parts, size_t columns) {
  std::vector<LinePart> kept = parts;
  while (true) {
    std::string line;
    for (const LinePart& part : kept) {
      if (!line.empty()) line += "  ";
      line += part.text;
    }
    if (line.size() <= columns) return line;
    if (kept.size() <= 1) return line.substr(0, columns);
    kept.erase(std::max_element(
        kept.begin(), kept.end(),
        [](const LinePart& a, const LinePart& b) { return a.rank < b.rank; }));
  }
}

LiveLine::LiveLine() : live_(CanRewrite()) {}

LiveLine::~LiveLine() { Leave(); }

size_t LiveLine::Columns() const {
  if (!live_) return std::string::npos;
  winsize size = {};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const size_t columns = known ? size.ws_col : kUnknownColumns;
  // Terminals differ in where a line up to the last column leaves the cursor.
  return std::max(columns, kLeastColumns) - 1;
}

void LiveLine::Show(const std::string& line) {
  if (!live_) return;
  std::printf("\r%s\033[K", line.c_str());
  std::fflush(stdout);
  line_ = line;
}

void LiveLine::Print(const std::string& text) {
  if (!line_.empty()) std::fputs(kClear, stdout);
  std::printf("%s\n", text.c_str());
  // The terminal may have become narrower since.
  if (!line_.empty()) std::fputs(line_.substr(0, Columns()).c_str(), stdout);
  std::fflush(stdout);
}

void LiveLine::Leave() {
  if (line_.empty()) return;
  line_.clear();
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace mnemon
