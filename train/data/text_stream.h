// SPDX-License-Identifier: MIT
// Text files of any size as one text, read in blocks that end between characters.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/files/file.h"

namespace mnemon {

// The files, concatenated. Safe for concurrent use.
class TextStream {
 public:
  // Errors name the file and are those of LargeFile; INVALID_ARGUMENT for a token file
  // or a Git LFS pointer, and if all files are empty.
  static absl::StatusOr<TextStream> Open(const std::vector<std::string>& paths);

  int64_t size() const { return size_; }
  // Reads bytes from `begin` on, as many as fit into `to`. DATA_LOSS if the read fails
  // or ends early.
  absl::Status Read(int64_t begin, std::span<char> to) const;
  // The place of byte `offset` of the text, for messages: "'b.txt' at byte 12".
  std::string PlaceOf(int64_t offset) const;
  // CheckFileKind of the file with byte `offset`. Called if that is not text.
  absl::Status CheckKind(int64_t offset) const;
  // DATA_LOSS if a file has changed since it was opened.
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

// Reads a text from beginning to end. Owned by one thread.
class TextBlocks {
 public:
  // Reads rounds of `blocks` blocks of about `block_bytes`; holds two rounds in memory.
  // REQUIRES: block_bytes >= 8, blocks >= 1. `text` must outlive it.
  TextBlocks(const TextStream& text, int64_t block_bytes, int64_t blocks);

  // The next round; empty at the end. No character of UTF-8 is split between blocks.
  // The blocks are contiguous in memory and valid until the call after the next, so
  // that one round can be used while another is read.
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
