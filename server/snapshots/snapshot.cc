// SPDX-License-Identifier: MIT
#include "server/snapshots/snapshot.h"

#include <bit>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/snapshots/snapshot_blocks.h"
#include "server/snapshots/snapshot_layout.h"
#include "server/snapshots/snapshot_metadata.h"

namespace mnemon {
namespace {

constexpr std::string_view kWhat = "a snapshot";
constexpr int64_t kFrontBytes = sizeof(SnapshotFront);
constexpr int64_t kDescriptorBytes = sizeof(BlockDescriptor);
constexpr int64_t kChecksumBytes = sizeof(SnapshotChecksum);
static_assert(kFrontBytes + kMaxSnapshotBlocks * kDescriptorBytes +
                  kMaxSnapshotMetadata + kChecksumBytes <=
              kMaxSnapshotHeader);

template <class Vector>
std::string_view BytesOf(const Vector& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(values[0])};
}

template <class Vector>
char* WritableBytesOf(Vector& values) {
  return reinterpret_cast<char*>(values.data());
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

SnapshotHeader HeaderOf(const Snapshot& snapshot) {
  return {.model_id = snapshot.model_id,
          .numerics_id = snapshot.numerics_id,
          .architecture = snapshot.architecture,
          .spec_hash = snapshot.spec_hash,
          .session = snapshot.session,
          .tokens = static_cast<int64_t>(snapshot.tokens.size()),
          .computed = snapshot.computed,
          .entries = snapshot.entries};
}

absl::StatusOr<std::string> Encode(const Snapshot& snapshot) {
  const SnapshotHeader header = HeaderOf(snapshot);
  MNEMON_RETURN_IF_ERROR(CheckMetadata(header));
  if (HasNegative(snapshot.tokens))
    return InvalidField("tokens", "a token is negative");
  if (const int64_t floats = StateFloats(header);
      static_cast<int64_t>(snapshot.state.size()) != floats) {
    return InvalidField("state", StrCat("the entries have ", floats,
                                        " numbers, the state ", snapshot.state.size()));
  }
  if (!AllFinite(snapshot.state)) {
    return InvalidField("state", "a number of the state is not finite");
  }
  const std::string metadata = FormatMetadata(header);
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
    count += SnapshotBlocks(static_cast<int64_t>(bytes.size()));
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

absl::StatusOr<Snapshot> Decode(std::string_view bytes, const SnapshotLimits& limits) {
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
  Snapshot snapshot{.model_id = std::move(header.model_id),
                    .numerics_id = std::move(header.numerics_id),
                    .architecture = std::move(header.architecture),
                    .spec_hash = std::move(header.spec_hash),
                    .session = std::move(header.session),
                    .computed = header.computed,
                    .entries = std::move(header.entries)};
  snapshot.tokens.resize(header.tokens);
  snapshot.state.resize(header.state_bytes / static_cast<int64_t>(sizeof(float)));
  BlockReader reader;
  char* const to[] = {WritableBytesOf(snapshot.tokens),
                      WritableBytesOf(snapshot.state)};
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
}

}  // namespace

absl::StatusOr<std::string> EncodeSnapshot(const Snapshot& snapshot) {
  return CatchOutOfMemory(kWhat, [&] { return Encode(snapshot); });
}

absl::StatusOr<Snapshot> DecodeSnapshot(std::string_view bytes,
                                        const SnapshotLimits& limits) {
  return CatchOutOfMemory(kWhat, [&] { return Decode(bytes, limits); });
}

absl::StatusOr<SnapshotHeader> ReadSnapshotHeader(std::string_view bytes) {
  return CatchOutOfMemory(kWhat, [&]() -> absl::StatusOr<SnapshotHeader> {
    MNEMON_ASSIGN_OR_RETURN(Opened opened, Open(bytes));
    return std::move(opened.header);
  });
}

}  // namespace mnemon
