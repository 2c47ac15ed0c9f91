// SPDX-License-Identifier: MIT
#include "tests/server/snapshots/mend_checksums.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "server/snapshots/snapshot_layout.h"

namespace mnemon {

void MendChecksums(std::string& bytes) {
  SnapshotFront front;
  if (bytes.size() < sizeof(front)) return;
  std::memcpy(&front, bytes.data(), sizeof(front));
  front.magic = kSnapshotMagic;
  front.bytes = bytes.size();
  std::memcpy(bytes.data(), &front, sizeof(front));
  if (front.header_bytes < sizeof(front) + sizeof(SnapshotChecksum) ||
      front.header_bytes > bytes.size()) {
    return;
  }
  const std::string_view view = bytes;
  const size_t checksum_at = front.header_bytes - sizeof(SnapshotChecksum);
  size_t stored_at = front.header_bytes;
  for (uint32_t b = 0; b < front.blocks; ++b) {
    const size_t at = sizeof(front) + b * sizeof(BlockDescriptor);
    BlockDescriptor block;
    if (at + sizeof(block) > checksum_at) break;
    std::memcpy(&block, bytes.data() + at, sizeof(block));
    const std::string_view stored = view.substr(stored_at, block.stored);
    block.checksum = ChecksumOf(stored);
    stored_at += stored.size();
    std::memcpy(bytes.data() + at, &block, sizeof(block));
  }
  const SnapshotChecksum checksum = ChecksumOf(view.substr(0, checksum_at));
  std::memcpy(bytes.data() + checksum_at, checksum.data(), sizeof(checksum));
}

}  // namespace mnemon
