// SPDX-License-Identifier: MIT
// Text files as one text, which is read in blocks that end between characters, whatever
// its size.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file.h"

namespace mnemon {

// The files one behind the other. Safe for concurrent use.
class TextStream {
 public:
  // Errors name the file and are those of LargeFile; INVALID_ARGUMENT for a token file
  // or a Git LFS pointer, and where all are empty.
  static absl::StatusOr<TextStream> Open(const std::vector<std::string>& paths);

  int64_t size() const { return size_; }
  // Bytes from `begin` on, as many as `to` has room for. DATA_LOSS.
  absl::Status Read(int64_t begin, std::span<char> to) const;
  // Where byte `offset` of the text is, for messages: "'b.txt' at byte 12".
  std::string PlaceOf(int64_t offset) const;
  // CheckFileKind of the file with that byte, for what is no text.
  absl::Status CheckKind(int64_t offset) const;
  // DATA_LOSS when a file changed since it was opened.
  absl::Status CheckUnchanged() const;

 private:
  // A file and its first byte in the text.
  struct Piece {
    LargeFile file;
    int64_t begin;
  };
  const Piece& PieceOf(int64_t offset) const;

  std::vector<Piece> pieces_;
  int64_t size_ = 0;
};

struct TextBlock {
  int64_t begin = 0;  // in the text
  std::string_view bytes;
};

// One way through a text. Owned by one thread.
class TextBlocks {
 public:
  // Rounds of `blocks` blocks of about `block_bytes`; two rounds are all that is held.
  // REQUIRES: block_bytes >= 8, blocks >= 1. `text` must outlive it.
  TextBlocks(const TextStream& text, int64_t block_bytes, int64_t blocks);

  // The next round; empty behind the end. No character of UTF-8 lies in two blocks. The
  // blocks follow each other in memory too, and are valid until the call after the
  // next: one round can be used while another is read.
  absl::StatusOr<std::span<const TextBlock>> Next();

 private:
  const TextStream& text_;
  const int64_t block_bytes_;
  std::array<std::vector<char>, 2> buffers_;
  std::array<std::vector<TextBlock>, 2> blocks_;
  int turn_ = 0;  // which of the two is next
  int64_t position_ = 0;
};

}  // namespace mnemon
