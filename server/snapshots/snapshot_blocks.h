// SPDX-License-Identifier: MIT
// The blocks of a snapshot: its tokens and its state in pieces, each stored as it is or
// compressed, with a checksum of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/snapshots/snapshot_layout.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace mnemon {

// Blocks that `bytes` bytes of a section take.
int64_t SnapshotBlocks(int64_t bytes);

// Writes blocks one after the other. Throws std::bad_alloc.
class BlockWriter {
 public:
  // Appends to `out`.
  explicit BlockWriter(std::string& out);
  ~BlockWriter();

  // The descriptor of `content`, of at most kSnapshotBlock bytes, not empty, whose
  // stored bytes are now at the end of `out`.
  BlockDescriptor Write(SnapshotSection section, std::string_view content);

 private:
  bool WorthCompressing(std::string_view content);
  // Bytes written to `to`; 0 when they would be more than `most`.
  size_t Compress(std::string_view content, char* to, size_t most);

  std::string& out_;
  std::unique_ptr<ZSTD_CCtx_s, size_t (*)(ZSTD_CCtx_s*)> zstd_;  // made when needed
  std::string sample_;
};

// Whether `blocks` are those of a snapshot with this many bytes of tokens and of state,
// and `stored` the sum of their stored bytes. DATA_LOSS.
absl::Status CheckBlockTable(std::span<const BlockDescriptor> blocks,
                             int64_t token_bytes, int64_t state_bytes, uint64_t stored);

// Reads blocks in any order. Throws std::bad_alloc.
class BlockReader {
 public:
  BlockReader();
  ~BlockReader();

  // Fills the block.bytes bytes at `to`. REQUIRES: block is of a checked table, stored
  // has its size. DATA_LOSS.
  absl::Status Read(const BlockDescriptor& block, std::string_view stored, char* to);

 private:
  std::unique_ptr<ZSTD_DCtx_s, size_t (*)(ZSTD_DCtx_s*)> zstd_;  // made when needed
};

}  // namespace mnemon
