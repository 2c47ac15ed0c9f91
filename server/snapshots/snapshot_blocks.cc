// SPDX-License-Identifier: MIT
#include "server/snapshots/snapshot_blocks.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/strings.h"
#include "zstd.h"
#include "zstd_errors.h"

namespace mnemon {
namespace {

// The fastest that also shortens what repeats no sequence of bytes.
constexpr int kLevel = 1;
// What a block must lose to be stored compressed: 1/8. Dense float32 loses 1/13 by its
// exponents, which is not worth being read at a tenth of the speed.
constexpr size_t kLeastGain = 8;
// A large block is first tried by pieces of it, spread evenly.
constexpr size_t kSamplePiece = 2048;
constexpr size_t kSamplePieces = 4;

size_t MostWorth(size_t bytes) { return bytes - (bytes + kLeastGain - 1) / kLeastGain; }

// Of what zstd returned an error for.
void ThrowIfOutOfMemory(size_t result) {
  if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) throw std::bad_alloc();
}

}  // namespace

int64_t SnapshotBlocks(int64_t bytes) {
  return bytes / kSnapshotBlock + (bytes % kSnapshotBlock != 0);
}

BlockWriter::BlockWriter(std::string& out) : out_(out), zstd_(nullptr, ZSTD_freeCCtx) {}

BlockWriter::~BlockWriter() = default;

size_t BlockWriter::Compress(std::string_view content, char* to, size_t most) {
  if (zstd_ == nullptr) zstd_.reset(ZSTD_createCCtx());
  if (zstd_ == nullptr) throw std::bad_alloc();
  const size_t result =
      ZSTD_compressCCtx(zstd_.get(), to, most, content.data(), content.size(), kLevel);
  if (!ZSTD_isError(result)) return result;
  ThrowIfOutOfMemory(result);
  return 0;
}

bool BlockWriter::WorthCompressing(std::string_view content) {
  constexpr size_t kSample = kSamplePiece * kSamplePieces;
  if (content.size() <= 2 * kSample) return true;
  sample_.resize(2 * kSample);
  const size_t stride = content.size() / kSamplePieces;
  for (size_t piece = 0; piece < kSamplePieces; ++piece) {
    std::memcpy(sample_.data() + piece * kSamplePiece, content.data() + piece * stride,
                kSamplePiece);
  }
  return Compress({sample_.data(), kSample}, sample_.data() + kSample,
                  MostWorth(kSample)) > 0;
}

BlockDescriptor BlockWriter::Write(SnapshotSection section, std::string_view content) {
  const size_t begin = out_.size(), most = MostWorth(content.size());
  size_t compressed = 0;
  if (WorthCompressing(content)) {
    out_.resize(begin + most);
    compressed = Compress(content, out_.data() + begin, most);
    out_.resize(begin + compressed);
  }
  if (compressed == 0) out_.append(content);
  const std::string_view stored = std::string_view(out_).substr(begin);
  return {.section = section,
          .codec = compressed > 0 ? kZstdCodec : kRawCodec,
          .stored = static_cast<uint32_t>(stored.size()),
          .bytes = static_cast<uint32_t>(content.size()),
          .checksum = ChecksumOf(stored)};
}

absl::Status CheckBlockTable(std::span<const BlockDescriptor> blocks,
                             int64_t token_bytes, int64_t state_bytes,
                             uint64_t stored) {
  const int64_t token_blocks = SnapshotBlocks(token_bytes);
  const int64_t expected = token_blocks + SnapshotBlocks(state_bytes);
  if (static_cast<int64_t>(blocks.size()) != expected) {
    return DamagedSnapshot(
        StrCat(blocks.size(), " blocks, its metadata make ", expected));
  }
  uint64_t sum = 0;
  for (int64_t b = 0; b < expected; ++b) {
    const BlockDescriptor& block = blocks[b];
    const bool of_tokens = b < token_blocks;
    const int64_t left = of_tokens ? token_bytes - b * kSnapshotBlock
                                   : state_bytes - (b - token_blocks) * kSnapshotBlock;
    const auto fault = [b](std::string_view what, auto found) {
      return DamagedSnapshot(StrCat("block ", b, " has the ", what, " ", found));
    };
    if (block.section != (of_tokens ? kTokenSection : kStateSection)) {
      return fault("section", block.section);
    }
    if (block.bytes != std::min(left, kSnapshotBlock))
      return fault("size", block.bytes);
    const bool fits = block.codec == kRawCodec    ? block.stored == block.bytes
                      : block.codec == kZstdCodec ? block.stored < block.bytes
                                                  : false;
    if (!fits) {
      return fault("codec",
                   StrCat(block.codec, " and ", block.stored, " stored bytes"));
    }
    sum += block.stored;
  }
  if (sum == stored) return absl::OkStatus();
  return DamagedSnapshot(StrCat("its blocks have ", sum, " bytes, there are ", stored));
}

BlockReader::BlockReader() : zstd_(nullptr, ZSTD_freeDCtx) {}

BlockReader::~BlockReader() = default;

absl::Status BlockReader::Read(const BlockDescriptor& block, std::string_view stored,
                               char* to) {
  if (ChecksumOf(stored) != block.checksum) {
    return DamagedSnapshot("the checksum of a block differs");
  }
  if (block.codec == kRawCodec) {
    std::memcpy(to, stored.data(), stored.size());
    return absl::OkStatus();
  }
  if (zstd_ == nullptr) zstd_.reset(ZSTD_createDCtx());
  if (zstd_ == nullptr) throw std::bad_alloc();
  // One frame, and no other behind it: the library would read them all.
  if (ZSTD_findFrameCompressedSize(stored.data(), stored.size()) != stored.size() ||
      ZSTD_getFrameContentSize(stored.data(), stored.size()) != block.bytes) {
    return DamagedSnapshot("a block is not one zstd frame of its size");
  }
  const size_t result =
      ZSTD_decompressDCtx(zstd_.get(), to, block.bytes, stored.data(), stored.size());
  if (result == block.bytes) return absl::OkStatus();
  if (!ZSTD_isError(result)) return DamagedSnapshot("a block is too short");
  ThrowIfOutOfMemory(result);
  return DamagedSnapshot(StrCat("a block: zstd: ", ZSTD_getErrorName(result)));
}

}  // namespace mnemon
