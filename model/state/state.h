// SPDX-License-Identifier: MIT
// The state of a session as data: what a model carries between tokens, described so
// that arena, store, snapshot and metrics are written once for every architecture.
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

// How a growing entry lies within a block of 16 positions.
enum class BlockLayout {
  kRows,      // [16][elements]: a position's numbers side by side
  kColumns,   // [elements][16]: an element's numbers of all positions side by side
  kHeadRows,  // of shape [H, K]: [H][16][K], rows head by head
};

// All entries are float32: live state is never stored in fewer bits.
struct StateEntry {
  std::string name;
  std::vector<int64_t> shape;  // per session; for ring and append, of one row
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
  int64_t limit = kUnlimited;  // of positions, whatever the entries hold

  // The growing entries agree, sizes are positive and do not overflow.
  absl::Status Validate() const;

  bool growing() const;            // has a ring or append entry
  Growth growth() const;           // of the growing entries; kFixed when none
  int64_t capacity() const;        // of the growing entries; 0 when none
  int64_t fixed_elements() const;  // floats of all fixed entries together
  int64_t row_elements() const;    // floats of one row of all growing entries together

  // Where entry `entry` starts, in floats: a growing one within a block of
  // kBlockPositions rows of all growing entries, a fixed one among the fixed entries.
  int64_t offset(size_t entry) const;

  // Tokens that one session can compute: where appended entries end, or `limit`.
  int64_t max_positions() const;

  // Bytes one session at rest holds after `positions` tokens, in whole blocks (for a
  // ring, whose rows start anywhere in a block: at most). Known before any weight is
  // loaded.
  int64_t bytes_at(int64_t positions) const;

  // SHA-256 over names, shapes, fills, growths and layouts: two specs are the same or
  // not.
  std::string Hash() const;

  bool operator==(const StateSpec&) const = default;
};

std::string_view Name(Growth value);

}  // namespace mnemon
