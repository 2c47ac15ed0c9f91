// SPDX-License-Identifier: MIT
#include "train/report/markup.h"

#include "base/utf8.h"

namespace mnemon {
namespace {

constexpr char kReplacement[] = "\xef\xbf\xbd";
constexpr char kEllipsis[] = "\xe2\x80\xa6";

// XML allows no other character below the space, nor these two.
bool IsAllowed(char32_t c) {
  if (c == '\t' || c == '\n') return true;
  return c >= 0x20 && !(c >= 0x7f && c < 0xa0) && c != 0xfffe && c != 0xffff;
}

}  // namespace

std::string EscapeMarkup(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Piece piece = NextUtf8Piece(text, at);
    const bool allowed =
        piece.kind == Utf8Piece::kCodePoint && IsAllowed(piece.code_point);
    if (!allowed) {
      out += kReplacement;
    } else if (piece.code_point == '<') {
      out += "&lt;";
    } else if (piece.code_point == '>') {
      out += "&gt;";
    } else if (piece.code_point == '&') {
      out += "&amp;";
    } else if (piece.code_point == '"') {
      out += "&quot;";
    } else {
      out += text.substr(at, piece.length);
    }
    at += piece.length;
  }
  return out;
}

std::string Shortened(std::string_view text, size_t most) {
  if (CountCharacters(text) <= most) return std::string(text);
  size_t at = 0;
  for (size_t i = 0; i + 1 < most; ++i) at += NextUtf8Piece(text, at).length;
  return std::string(text.substr(0, at)) + kEllipsis;
}

size_t CountCharacters(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) at += NextUtf8Piece(text, at).length;
  return count;
}

}  // namespace mnemon
