// SPDX-License-Identifier: MIT
// Description of the state that a model carries between tokens, as data: arena, store,
// snapshot and metrics are thus written once for all architectures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace mnemon {

enum class Growth {
  kFixed,   // the same bytes at every position
  kRing,    // one row per position; a query sees at most the last `capacity` rows
  kAppend,  // one row per position, at most `capacity` of them
};

// Layout of a growing entry within a block of 16 positions.
enum class BlockLayout {
  kRows,      // [16][elements]: the numbers of a position are contiguous
  kColumns,   // [elements][16]: the positions of an element are contiguous
  kHeadRows,  // of shape [H, K]: [H][16][K], rows head by head
};

// All entries are float32: live state never has less precision.
struct StateEntry {
  std::string name;
  std::vector<int64_t> shape;  // per session; for ring and append, per row
  float fill = 0.0f;           // value of a fresh state; fixed entries only
  Growth growth = Growth::kFixed;
  int64_t capacity = 0;  // ring: M; append: N; fixed: 0
  BlockLayout layout = BlockLayout::kRows;

  int64_t elements() const;  // product of shape
  bool operator==(const StateEntry&) const = default;
};

// Growing entries of one spec advance together, one row per token, and share growth and
// capacity, so a session has one list of blocks. Constant after construction.
struct StateSpec {
  static constexpr int64_t kUnlimited = INT64_MAX;

  std::vector<StateEntry> entries;
  int64_t limit = kUnlimited;  // limit of positions, for any entries

  // Checks that growing entries agree and that sizes are positive and do not overflow.
  absl::Status Validate() const;

  bool growing() const;            // has a ring or append entry
  Growth growth() const;           // of the growing entries; kFixed if none
  int64_t capacity() const;        // of the growing entries; 0 if none
  int64_t fixed_elements() const;  // floats of all fixed entries
  int64_t row_elements() const;    // floats of one row of all growing entries

  // Offset of entry `entry` in floats: for a growing one, within a block of
  // kBlockPositions rows of all growing entries; for a fixed one, among the fixed
  // entries.
  int64_t offset(size_t entry) const;

  // Tokens that one session can compute: the capacity of appended entries, or `limit`.
  int64_t max_positions() const;

  // Bytes that an idle session holds after `positions` tokens, in whole blocks (for a
  // ring, whose rows start anywhere in a block: at most). Known before any weight is
  // loaded.
  int64_t bytes_at(int64_t positions) const;

  // SHA-256 over names, shapes, fills, growths and layouts; equal for equal specs only.
  std::string Hash() const;

  bool operator==(const StateSpec&) const = default;
};

std::string_view Name(Growth value);

}  // namespace mnemon
