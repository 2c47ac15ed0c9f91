// SPDX-License-Identifier: MIT
#include "model/text/detokenizer.h"

#include "base/utf8.h"

namespace mnemon {
namespace {

constexpr char32_t kReplacement = 0xfffd;

}  // namespace

std::string Utf8Stream::Push(std::string_view bytes) {
  tail_ += bytes;
  std::string complete;
  size_t at = 0;
  while (at < tail_.size()) {
    const Utf8Piece piece = NextUtf8Piece(tail_, at);
    if (piece.kind == Utf8Piece::kIncomplete) break;
    if (piece.kind == Utf8Piece::kCodePoint) {
      complete.append(tail_, at, piece.length);
    } else {
      AppendUtf8(kReplacement, complete);
    }
    at += piece.length;
  }
  tail_.erase(0, at);
  return complete;
}

std::string Utf8Stream::Finish() {
  std::string last;
  if (!tail_.empty()) AppendUtf8(kReplacement, last);
  tail_.clear();
  return last;
}

}  // namespace mnemon
