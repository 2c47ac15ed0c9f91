// SPDX-License-Identifier: MIT
#include "client/commands/read_text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "base/quote.h"
#include "base/strings.h"

namespace mnemon::client {

absl::StatusOr<std::string> ReadText(const std::string& path, size_t max_bytes) {
  constexpr size_t kPiece = size_t{1} << 20;
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& input = path == "-" ? std::cin : file;
  if (!input) {
    return absl::NotFoundError(
        StrCat("cannot open ", Quoted(path), ": ", std::strerror(errno)));
  }
  std::string text;
  while (input && text.size() <= max_bytes) {
    const size_t begin = text.size();
    text.resize(begin + std::min(kPiece, max_bytes + 1 - begin));
    input.read(text.data() + begin, static_cast<std::streamsize>(text.size() - begin));
    text.resize(begin + static_cast<size_t>(input.gcount()));
  }
  if (input.bad()) return absl::DataLossError(StrCat("cannot read ", Quoted(path)));
  if (text.size() > max_bytes) {
    return absl::InvalidArgumentError(
        StrCat(Quoted(path), " has more than ", max_bytes, " bytes"));
  }
  return text;
}

}  // namespace mnemon::client
