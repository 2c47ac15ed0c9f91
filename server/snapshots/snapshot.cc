// SPDX-License-Identifier: MIT
#include "server/snapshots/snapshot.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/snapshots/snapshot_layout.h"
#include "zstd.h"
#include "zstd_errors.h"

namespace mnemon {
namespace {

constexpr std::string_view kWhat = "a snapshot";
constexpr int64_t kFrontBytes = sizeof(SnapshotFront);
constexpr int64_t kDescriptorBytes = sizeof(BlockDescriptor);
constexpr int64_t kChecksumBytes = sizeof(SnapshotChecksum);
static_assert(kFrontBytes + kMaxSnapshotBlocks * kDescriptorBytes +
                  kMaxSnapshotMetadata + kChecksumBytes <=
              kMaxSnapshotHeader);

absl::Status DamagedSnapshot(std::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss, StrCat("snapshot is damaged: ", what),
                   {.reason = "SNAPSHOT_DAMAGED"});
}

absl::Status TooLargeSnapshot(std::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   StrCat("snapshot is too large: ", what),
                   {.reason = "SNAPSHOT_TOO_LARGE"});
}

// The fastest that also shortens what repeats no sequence of bytes.
constexpr int kLevel = 1;
// What a block must lose to be stored compressed: 1/8. Dense float32 loses 1/13 by its
// exponents, which is not worth being read at a tenth of the speed.
constexpr size_t kLeastGain = 8;
// A large block is first tried by pieces of it, spread evenly.
constexpr size_t kSamplePiece = 2048;
constexpr size_t kSamplePieces = 4;

size_t MostWorth(size_t bytes) { return bytes - (bytes + kLeastGain - 1) / kLeastGain; }

// `result`: an error of zstd.
void ThrowIfOutOfMemory(size_t result) {
  if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) throw std::bad_alloc();
}

// Blocks that `bytes` bytes of a section take.
int64_t CountBlocks(int64_t bytes) {
  return bytes / kSnapshotBlock + (bytes % kSnapshotBlock != 0);
}

// Writes blocks one after the other. Throws std::bad_alloc.
class BlockWriter {
 public:
  // Appends to `out`.
  explicit BlockWriter(std::string& out) : out_(out) {}

  // The descriptor of `content`, of at most kSnapshotBlock bytes, not empty, whose
  // stored bytes are now at the end of `out`.
  BlockDescriptor Write(SnapshotSection section, std::string_view content) {
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

 private:
  bool WorthCompressing(std::string_view content) {
    constexpr size_t kSample = kSamplePiece * kSamplePieces;
    if (content.size() <= 2 * kSample) return true;
    sample_.resize(2 * kSample);
    const size_t stride = content.size() / kSamplePieces;
    for (size_t piece = 0; piece < kSamplePieces; ++piece) {
      std::memcpy(sample_.data() + piece * kSamplePiece,
                  content.data() + piece * stride, kSamplePiece);
    }
    return Compress({sample_.data(), kSample}, sample_.data() + kSample,
                    MostWorth(kSample)) > 0;
  }

  // Bytes written to `to`; 0 when they would be more than `most`.
  size_t Compress(std::string_view content, char* to, size_t most) {
    if (zstd_ == nullptr) zstd_.reset(ZSTD_createCCtx());
    if (zstd_ == nullptr) throw std::bad_alloc();
    const size_t result = ZSTD_compressCCtx(zstd_.get(), to, most, content.data(),
                                            content.size(), kLevel);
    if (!ZSTD_isError(result)) return result;
    ThrowIfOutOfMemory(result);
    return 0;
  }

  std::string& out_;
  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> zstd_{nullptr, ZSTD_freeCCtx};
  std::string sample_;
};

// Whether `blocks` are those of a snapshot with this many bytes of tokens and of state,
// and `stored` the sum of their stored bytes. DATA_LOSS.
absl::Status CheckBlockTable(std::span<const BlockDescriptor> blocks,
                             int64_t token_bytes, int64_t state_bytes,
                             uint64_t stored) {
  const int64_t token_blocks = CountBlocks(token_bytes);
  const int64_t expected = token_blocks + CountBlocks(state_bytes);
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

// Reads blocks in any order. Throws std::bad_alloc.
class BlockReader {
 public:
  // Fills the block.bytes bytes at `to`. REQUIRES: block is of a checked table, stored
  // has its size. DATA_LOSS.
  absl::Status Read(const BlockDescriptor& block, std::string_view stored, char* to) {
    if (ChecksumOf(stored) != block.checksum) {
      return DamagedSnapshot("the checksum of a block differs");
    }
    if (block.codec == kRawCodec) {
      std::memcpy(to, stored.data(), stored.size());
      return absl::OkStatus();
    }
    if (zstd_ == nullptr) zstd_.reset(ZSTD_createDCtx());
    if (zstd_ == nullptr) throw std::bad_alloc();
    // One frame, and no other after it: the library would read them all.
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

 private:
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> zstd_{nullptr, ZSTD_freeDCtx};
};

template <class Vector>
std::string_view BytesOf(const Vector& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(values[0])};
}

bool HasNegative(const std::vector<int32_t>& tokens) {
  uint32_t all = 0;
  for (const int32_t token : tokens) all |= static_cast<uint32_t>(token);
  return all >> 31 != 0;
}

// By lanes, which the compiler makes vectors of: one by one takes longer than all else.
bool AllFinite(const UnsetFloats& state) {
  // An exponent of all ones, and no other, carries into the sign.
  constexpr uint32_t kExponent = 0x7f800000, kLowest = 0x00800000;
  constexpr size_t kLanes = 16;
  uint32_t all[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= state.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      all[lane] |= (std::bit_cast<uint32_t>(state[i + lane]) & kExponent) + kLowest;
    }
  }
  for (; i < state.size(); ++i) {
    all[0] |= (std::bit_cast<uint32_t>(state[i]) & kExponent) + kLowest;
  }
  uint32_t any = 0;
  for (const uint32_t lane : all) any |= lane;
  return any >> 31 == 0;
}

struct Opened {
  SnapshotHeader header;
  std::vector<BlockDescriptor> blocks;
  int64_t header_bytes = 0;
};

// The header of a snapshot that begins with `bytes`.
absl::StatusOr<Opened> Open(std::string_view bytes) {
  SnapshotFront front;
  if (bytes.size() < kFrontBytes + kChecksumBytes) {
    return DamagedSnapshot(StrCat("it ends after ", bytes.size(), " bytes"));
  }
  std::memcpy(&front, bytes.data(), sizeof(front));
  if (front.magic != kSnapshotMagic) {
    return DamagedSnapshot("it does not begin with MNEMSNAP");
  }
  if (front.header_bytes < kFrontBytes + kChecksumBytes ||
      front.header_bytes > bytes.size()) {
    return DamagedSnapshot(StrCat("its header of ", front.header_bytes,
                                  " bytes, in the first ", bytes.size(), " bytes"));
  }
  const size_t checksum_at = front.header_bytes - kChecksumBytes;
  const SnapshotChecksum checksum = ChecksumOf(bytes.substr(0, checksum_at));
  if (std::memcmp(checksum.data(), bytes.data() + checksum_at, sizeof(checksum)) != 0) {
    return DamagedSnapshot("the checksum of the header differs");
  }
  // Later versions keep all that was used so far.
  if (front.version > kSnapshotVersion) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     StrCat("snapshot has format version ", front.version,
                            "; this program reads up to ", kSnapshotVersion),
                     {.reason = "SNAPSHOT_VERSION"});
  }
  if (front.version != kSnapshotVersion || front.zero != 0) {
    return DamagedSnapshot("its first bytes hold what was never written");
  }
  if (bytes.size() > front.bytes) {
    return DamagedSnapshot(
        StrCat("it has ", bytes.size(), " bytes, expected ", front.bytes));
  }
  const int64_t metadata_at = kFrontBytes + int64_t{front.blocks} * kDescriptorBytes;
  const int64_t metadata_bytes = static_cast<int64_t>(checksum_at) - metadata_at;
  if (front.blocks > kMaxSnapshotBlocks || metadata_bytes < 0 ||
      metadata_bytes > kMaxSnapshotMetadata) {
    return DamagedSnapshot(
        StrCat(front.blocks, " blocks in a header of ", front.header_bytes, " bytes"));
  }
  auto header = ParseMetadata(bytes.substr(metadata_at, metadata_bytes));
  if (!header.ok()) return DamagedSnapshot(std::string(header.status().message()));

  Opened opened{.header = *std::move(header),
                .blocks = std::vector<BlockDescriptor>(front.blocks),
                .header_bytes = front.header_bytes};
  opened.header.bytes = static_cast<int64_t>(front.bytes);
  int64_t token_bytes = 0;
  if (__builtin_mul_overflow(opened.header.tokens, sizeof(int32_t), &token_bytes)) {
    return DamagedSnapshot(StrCat(opened.header.tokens, " tokens"));
  }
  opened.header.state_bytes =
      StateFloats(opened.header) * static_cast<int64_t>(sizeof(float));
  if (!opened.blocks.empty()) {
    std::memcpy(opened.blocks.data(), bytes.data() + kFrontBytes,
                opened.blocks.size() * sizeof(BlockDescriptor));
  }
  MNEMON_RETURN_IF_ERROR(CheckBlockTable(opened.blocks, token_bytes,
                                         opened.header.state_bytes,
                                         front.bytes - front.header_bytes));
  return opened;
}

}  // namespace

absl::StatusOr<std::string> EncodeSnapshot(const Snapshot& snapshot) try {
  const auto tokens = static_cast<int64_t>(snapshot.tokens.size());
  MNEMON_RETURN_IF_ERROR(CheckMetadata(snapshot, tokens));
  if (HasNegative(snapshot.tokens))
    return InvalidField("tokens", "a token is negative");
  if (const int64_t floats = StateFloats(snapshot);
      static_cast<int64_t>(snapshot.state.size()) != floats) {
    return InvalidField("state", StrCat("the entries have ", floats,
                                        " numbers, the state ", snapshot.state.size()));
  }
  if (!AllFinite(snapshot.state)) {
    return InvalidField("state", "a number of the state is not finite");
  }
  const std::string metadata = FormatMetadata(snapshot, tokens);
  if (static_cast<int64_t>(metadata.size()) > kMaxSnapshotMetadata) {
    return TooLargeSnapshot(StrCat(metadata.size(), " bytes of metadata, at most ",
                                   kMaxSnapshotMetadata, " may be"));
  }
  const std::pair<SnapshotSection, std::string_view> sections[] = {
      {kTokenSection, BytesOf(snapshot.tokens)},
      {kStateSection, BytesOf(snapshot.state)}};
  int64_t count = 0;
  size_t content = 0;
  for (const auto& [section, bytes] : sections) {
    count += CountBlocks(static_cast<int64_t>(bytes.size()));
    content += bytes.size();
  }
  if (count > kMaxSnapshotBlocks) {
    return TooLargeSnapshot(StrCat(content, " bytes of tokens and state"));
  }

  SnapshotFront front{.blocks = static_cast<uint32_t>(count)};
  const size_t metadata_at = kFrontBytes + count * kDescriptorBytes;
  const size_t checksum_at = metadata_at + metadata.size();
  front.header_bytes = static_cast<uint32_t>(checksum_at + kChecksumBytes);
  std::string out;
  out.reserve(front.header_bytes + content);
  out.resize(front.header_bytes);
  BlockWriter writer(out);
  size_t descriptor_at = kFrontBytes;
  for (auto& [section, bytes] : sections) {
    for (size_t at = 0; at < bytes.size(); at += kSnapshotBlock) {
      const BlockDescriptor block =
          writer.Write(section, bytes.substr(at, kSnapshotBlock));
      std::memcpy(out.data() + descriptor_at, &block, sizeof(block));
      descriptor_at += sizeof(block);
    }
  }
  front.bytes = out.size();
  std::memcpy(out.data(), &front, sizeof(front));
  std::memcpy(out.data() + metadata_at, metadata.data(), metadata.size());
  const SnapshotChecksum checksum =
      ChecksumOf(std::string_view(out).substr(0, checksum_at));
  std::memcpy(out.data() + checksum_at, checksum.data(), sizeof(checksum));
  // It may be kept for long.
  if (out.capacity() / 2 > out.size()) out.shrink_to_fit();
  return out;
} catch (const std::bad_alloc&) {
  return OutOfMemoryError(kWhat);
}

absl::StatusOr<Snapshot> DecodeSnapshot(std::string_view bytes,
                                        const SnapshotLimits& limits) try {
  MNEMON_ASSIGN_OR_RETURN(Opened opened, Open(bytes));
  SnapshotHeader& header = opened.header;
  if (static_cast<int64_t>(bytes.size()) != header.bytes) {
    return DamagedSnapshot(
        StrCat("it has ", bytes.size(), " bytes, expected ", header.bytes));
  }
  if (header.tokens > limits.tokens) {
    return TooLargeSnapshot(
        StrCat(header.tokens, " tokens, at most ", limits.tokens, " may be"));
  }
  if (header.state_bytes > limits.state_bytes) {
    return TooLargeSnapshot(StrCat(header.state_bytes, " bytes of state, at most ",
                                   limits.state_bytes, " may be"));
  }
  Snapshot snapshot{std::move(header), {}, {}};
  snapshot.tokens.resize(header.tokens);
  snapshot.state.resize(header.state_bytes / static_cast<int64_t>(sizeof(float)));
  BlockReader reader;
  char* const to[] = {reinterpret_cast<char*>(snapshot.tokens.data()),
                      reinterpret_cast<char*>(snapshot.state.data())};
  size_t filled[] = {0, 0};
  bytes.remove_prefix(opened.header_bytes);
  for (const BlockDescriptor& block : opened.blocks) {
    MNEMON_RETURN_IF_ERROR(reader.Read(block, bytes.substr(0, block.stored),
                                       to[block.section] + filled[block.section]));
    filled[block.section] += block.bytes;
    bytes.remove_prefix(block.stored);
  }
  if (HasNegative(snapshot.tokens)) return DamagedSnapshot("a token is negative");
  if (!AllFinite(snapshot.state)) {
    return DamagedSnapshot("a number of the state is not finite");
  }
  return snapshot;
} catch (const std::bad_alloc&) {
  return OutOfMemoryError(kWhat);
}

absl::StatusOr<SnapshotHeader> ReadSnapshotHeader(std::string_view bytes) try {
  MNEMON_ASSIGN_OR_RETURN(Opened opened, Open(bytes));
  return std::move(opened.header);
} catch (const std::bad_alloc&) {
  return OutOfMemoryError(kWhat);
}

}  // namespace mnemon
