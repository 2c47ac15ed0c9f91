// SPDX-License-Identifier: MIT
// A session as one self-contained sequence of bytes: identities, token history, the
// state in canonical form, and the session's record. docs/snapshot_format.md describes
// the bytes.
//
// Pure functions. Checksums find damage, not forgery. Errors:
//   DATA_LOSS, SNAPSHOT_DAMAGED            no snapshot, or not as it was written
//   FAILED_PRECONDITION, SNAPSHOT_VERSION  of a newer format; names both versions
//   INVALID_ARGUMENT, SNAPSHOT_TOO_LARGE   beyond the limits, or those of the format
//   RESOURCE_EXHAUSTED, OUT_OF_MEMORY
// Whether a snapshot fits a model is for the caller to compare.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/memory/aligned_floats.h"
#include "model/state/state.h"

namespace mnemon {

// One entry of a state, with the rows of it that a snapshot holds.
struct SnapshotEntry {
  std::string name;            // distinct; printable ASCII, 1 to 256 bytes
  std::vector<int64_t> shape;  // at most 8 sizes; for ring and append, of one row
  Growth growth = Growth::kFixed;
  int64_t capacity = 0;   // ring: M; append: N; fixed: 0
  int64_t first_row = 0;  // the position of the first row held; fixed: 0
  int64_t rows = 0;       // ring: the last M or fewer; append: all computed; fixed: 0

  // Floats held: the product of shape, for ring and append times rows.
  int64_t floats() const;
  bool operator==(const SnapshotEntry&) const = default;
};

// What a snapshot says of itself.
struct SnapshotFacts {
  // Printable ASCII, at most 256 bytes each.
  std::string model_id;      // SHA-256 of weights, configuration and tokenizer
  std::string numerics_id;   // that made the state
  std::string architecture;  // as in config.json
  std::string spec_hash;     // StateSpec::Hash() of the state

  // A JSON object, kept as text, at most 64 KiB and 16 levels; not read here.
  std::string session = "{}";

  int64_t computed = 0;  // tokens, the first ones, that the state contains
  // In the order of the spec. None: the state is computed again from the history, and
  // `computed` is 0.
  std::vector<SnapshotEntry> entries;

  bool operator==(const SnapshotFacts&) const = default;
};

struct Snapshot : SnapshotFacts {
  std::vector<int32_t> tokens;  // the history; none is negative
  // Finite; one entry after the other: of a fixed one its elements, of a growing one
  // [rows][elements], row-major.
  UnsetFloats state;

  bool operator==(const Snapshot&) const = default;
};

// The beginning of a snapshot, before its tokens and its state.
struct SnapshotHeader : SnapshotFacts {
  int64_t tokens = 0;
  int64_t state_bytes = 0;  // in memory
  int64_t bytes = 0;        // of the whole snapshot
};

// The header has at most this many bytes.
inline constexpr int64_t kMaxSnapshotHeader = int64_t{5} << 20;
// Limit of the engine, which no model comes near.
inline constexpr int64_t kMaxSnapshotState = int64_t{1} << 40;

struct SnapshotLimits {
  int64_t tokens;
  int64_t state_bytes = kMaxSnapshotState;
};

// The same snapshot gives the same bytes, with one version of libzstd. INVALID_ARGUMENT
// names the member that breaks a rule above.
absl::StatusOr<std::string> EncodeSnapshot(const Snapshot& snapshot);

// All of `bytes` is checked before anything is returned. Beside the result at most some
// 16 MiB are allocated, and the result only within the limits.
absl::StatusOr<Snapshot> DecodeSnapshot(std::string_view bytes,
                                        const SnapshotLimits& limits);

// `bytes`: a snapshot or its beginning; kMaxSnapshotHeader bytes always suffice. Reads
// the header alone.
absl::StatusOr<SnapshotHeader> ReadSnapshotHeader(std::string_view bytes);

}  // namespace mnemon
