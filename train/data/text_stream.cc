// SPDX-License-Identifier: MIT
#include "train/data/text_stream.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/files/file_kind.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "train/data/token_file.h"

namespace mnemon {
namespace {

// Where a block ends that should end before byte `end`: at most the length of a
// character earlier. Any end is right among bytes that are not UTF-8.
int64_t EndBetweenCharacters(const char* bytes, int64_t end) {
  for (int64_t back = 0; back < 4; ++back) {
    if ((bytes[end - back] & 0xC0) != 0x80) return end - back;
  }
  return end;
}

}  // namespace

absl::StatusOr<TextStream> TextStream::Open(const std::vector<std::string>& paths) {
  TextStream text;
  for (const std::string& path : paths) {
    MNEMON_ASSIGN_OR_RETURN(LargeFile file,
                            LargeFile::Open(path, std::numeric_limits<int64_t>::max()));
    // Any other file may be a text, of bytes at least.
    if (FindFileKind(BeginningOf(file)) == FileKind::kLfsPointer) {
      return WrongKind(path, FileKind::kLfsPointer);
    }
    if (IsTokenFile(path)) {
      return absl::InvalidArgumentError(
          StrCat(Quoted(path), " is a token file; a text is needed"));
    }
    const int64_t size = file.size();
    text.pieces_.push_back({std::move(file), text.size_});
    text.size_ += size;
  }
  if (text.size_ == 0) {
    return absl::InvalidArgumentError(
        StrCat(StrJoin(paths, ", "), ": an empty text has no tokens"));
  }
  return text;
}

absl::Status TextStream::Read(int64_t begin, std::span<char> to) const {
  for (const Piece& piece : pieces_) {
    if (to.empty()) break;
    const int64_t left = piece.begin + piece.file.size() - begin;
    if (left <= 0) continue;
    const size_t count = std::min(to.size(), static_cast<size_t>(left));
    MNEMON_RETURN_IF_ERROR(piece.file.Read(begin - piece.begin, to.first(count)));
    to = to.subspan(count);
    begin += static_cast<int64_t>(count);
  }
  return absl::OkStatus();
}

const TextStream::Piece& TextStream::PieceOf(int64_t offset) const {
  auto piece = pieces_.begin();
  while (piece + 1 != pieces_.end() && offset >= piece->begin + piece->file.size()) {
    ++piece;
  }
  return *piece;
}

std::string TextStream::PlaceOf(int64_t offset) const {
  const Piece& piece = PieceOf(offset);
  return StrCat(Quoted(piece.file.path()), " at byte ", offset - piece.begin);
}

absl::Status TextStream::CheckKind(int64_t offset) const {
  return CheckFileKind(PieceOf(offset).file);
}

absl::Status TextStream::CheckUnchanged() const {
  for (const Piece& piece : pieces_) {
    MNEMON_RETURN_IF_ERROR(piece.file.CheckUnchanged());
  }
  return absl::OkStatus();
}

// One byte more, to see whether a character ends before it.
TextBlocks::TextBlocks(const TextStream& text, int64_t block_bytes, int64_t blocks)
    : text_(text), block_bytes_(block_bytes) {
  for (std::vector<char>& buffer : buffers_) {
    buffer.resize(std::min(text.size(), block_bytes * blocks + 1));
  }
}

absl::StatusOr<std::span<const TextBlock>> TextBlocks::Next() {
  std::vector<char>& buffer = buffers_[turn_];
  std::vector<TextBlock>& blocks = blocks_[turn_];
  turn_ = 1 - turn_;
  blocks.clear();
  const int64_t left = text_.size() - position_;
  const int64_t read = std::min(left, static_cast<int64_t>(buffer.size()));
  MNEMON_RETURN_IF_ERROR(
      text_.Read(position_, std::span(buffer).first(static_cast<size_t>(read))));
  int64_t begin = 0;
  while (begin < read) {
    int64_t end = begin + block_bytes_;
    if (end < read) {
      end = EndBetweenCharacters(buffer.data(), end);
    } else if (read == left) {
      end = read;
    } else {
      break;
    }
    blocks.push_back(
        {position_ + begin, {buffer.data() + begin, static_cast<size_t>(end - begin)}});
    begin = end;
  }
  position_ += begin;
  return blocks;
}

}  // namespace mnemon
