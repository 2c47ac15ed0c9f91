// SPDX-License-Identifier: MIT
#include "base/utf8.h"

#include <cstring>

namespace mnemon {
namespace {

uint8_t ByteAt(std::string_view text, size_t offset) {
  return static_cast<uint8_t>(text[offset]);
}

// Length of the sequence that starts with `lead` and the range of its second byte,
// table 3-7 of the Unicode standard; length 0 if it starts none.
struct Lead {
  size_t length;
  uint8_t least;
  uint8_t most;
};
Lead LeadOf(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xc2) return {0, 0, 0};
  if (lead < 0xe0) return {2, 0x80, 0xbf};
  if (lead == 0xe0) return {3, 0xa0, 0xbf};
  if (lead == 0xed) return {3, 0x80, 0x9f};
  if (lead < 0xf0) return {3, 0x80, 0xbf};
  if (lead == 0xf0) return {4, 0x90, 0xbf};
  if (lead < 0xf4) return {4, 0x80, 0xbf};
  if (lead == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

}  // namespace

Utf8Piece NextUtf8Piece(std::string_view text, size_t offset) {
  const Lead lead = LeadOf(ByteAt(text, offset));
  if (lead.length == 0) return {Utf8Piece::kIllFormed, 1};
  char32_t code_point = ByteAt(text, offset);
  if (lead.length > 1) code_point &= 0x7f >> lead.length;
  for (size_t i = 1; i < lead.length; ++i) {
    if (offset + i == text.size()) return {Utf8Piece::kIncomplete, i};
    const uint8_t byte = ByteAt(text, offset + i);
    const uint8_t least = i == 1 ? lead.least : 0x80;
    const uint8_t most = i == 1 ? lead.most : 0xbf;
    if (byte < least || byte > most) return {Utf8Piece::kIllFormed, i};
    code_point = code_point << 6 | (byte & 0x3f);
  }
  return {Utf8Piece::kCodePoint, lead.length, code_point};
}

bool NextCodePoint(std::string_view text, size_t& offset, char32_t& code_point) {
  if (offset >= text.size()) return false;
  if (ByteAt(text, offset) < 0x80) {
    code_point = ByteAt(text, offset++);
    return true;
  }
  const Utf8Piece piece = NextUtf8Piece(text, offset);
  if (piece.kind != Utf8Piece::kCodePoint) return false;
  offset += piece.length;
  code_point = piece.code_point;
  return true;
}

void AppendUtf8(char32_t code_point, std::string& out) {
  const auto add = [&out](char32_t byte) { out += static_cast<char>(byte); };
  const auto continuation = [&](int shift) {
    add(0x80 | (code_point >> shift & 0x3f));
  };
  if (code_point < 0x80) {
    add(code_point);
  } else if (code_point < 0x800) {
    add(0xc0 | code_point >> 6);
    continuation(0);
  } else if (code_point < 0x10000) {
    add(0xe0 | code_point >> 12);
    continuation(6);
    continuation(0);
  } else {
    add(0xf0 | code_point >> 18);
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

size_t ValidUtf8Prefix(std::string_view text) {
  size_t offset = 0;
  while (offset < text.size()) {
    uint64_t eight = 0;
    if (text.size() - offset >= sizeof(eight)) {
      std::memcpy(&eight, text.data() + offset, sizeof(eight));
      if ((eight & 0x8080808080808080) == 0) {
        offset += sizeof(eight);
        continue;
      }
    }
    char32_t ignored;
    if (!NextCodePoint(text, offset, ignored)) break;
  }
  return offset;
}

bool IsValidUtf8(std::string_view text) { return ValidUtf8Prefix(text) == text.size(); }

}  // namespace mnemon
