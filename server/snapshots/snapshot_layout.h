// SPDX-License-Identifier: MIT
// The bytes of a snapshot (docs/snapshot_format.md): what lies at fixed places, the
// bounds of the rest, and the metadata in the header.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/snapshots/snapshot.h"

namespace mnemon {

// Structs are copied to and from the bytes as they are.
static_assert(std::endian::native == std::endian::little);

inline constexpr std::array<char, 8> kSnapshotMagic = {'M', 'N', 'E', 'M',
                                                       'S', 'N', 'A', 'P'};
inline constexpr uint32_t kSnapshotVersion = 1;
// Uncompressed, all blocks of a section but its last have this many bytes.
inline constexpr int64_t kSnapshotBlock = int64_t{1} << 20;
inline constexpr int64_t kMaxSnapshotBlocks = 65536;
inline constexpr int64_t kMaxSnapshotMetadata = int64_t{2} << 20;

// XXH3-128 in its canonical order of bytes.
using SnapshotChecksum = std::array<unsigned char, 16>;
SnapshotChecksum ChecksumOf(std::string_view bytes);

// The first bytes. The table of blocks follows, then the metadata, then the checksum
// over all bytes in front of it, with which the header ends.
struct SnapshotFront {
  std::array<char, 8> magic = kSnapshotMagic;
  uint32_t version = kSnapshotVersion;
  uint32_t header_bytes = 0;
  uint32_t blocks = 0;
  uint32_t zero = 0;
  uint64_t bytes = 0;  // of the whole snapshot
};
static_assert(sizeof(SnapshotFront) == 32);

enum SnapshotSection : uint32_t { kTokenSection = 0, kStateSection = 1 };
enum SnapshotCodec : uint32_t { kRawCodec = 0, kZstdCodec = 1 };

struct BlockDescriptor {
  uint32_t section = 0;
  uint32_t codec = 0;
  uint32_t stored = 0;             // bytes in the snapshot
  uint32_t bytes = 0;              // bytes uncompressed
  SnapshotChecksum checksum = {};  // of the stored bytes
};
static_assert(sizeof(BlockDescriptor) == 32);

// Metadata: a JSON object of the facts and the number of tokens.

// INVALID_ARGUMENT names the member.
absl::Status CheckMetadata(const SnapshotFacts& facts, int64_t tokens);

// Floats of all entries. REQUIRES: checked.
int64_t StateFloats(const SnapshotFacts& facts);

// REQUIRES: checked.
std::string FormatMetadata(const SnapshotFacts& facts, int64_t tokens);

// The strict inverse, checked; `state_bytes` and `bytes` are not set. INVALID_ARGUMENT.
absl::StatusOr<SnapshotHeader> ParseMetadata(std::string_view text);

}  // namespace mnemon
