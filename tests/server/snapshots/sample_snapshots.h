// SPDX-License-Identifier: MIT
// Snapshots to encode in tests.
#pragma once

#include <cstdint>

#include "server/snapshots/snapshot.h"

namespace mnemon {

// Tokens and a state that do not compress, with one entry of `floats` floats; none if
// that is 0.
Snapshot FixedSnapshot(int64_t tokens, int64_t floats);

// Two growing entries and a fixed one, `computed` tokens of `tokens`.
Snapshot GrowingSnapshot(Growth growth, int64_t capacity, int64_t tokens,
                         int64_t computed);

// Any valid snapshot of up to some 100,000 floats: a function of `seed`.
Snapshot RandomSnapshot(uint32_t seed);

inline constexpr SnapshotLimits kWideLimits{.tokens = int64_t{1} << 24,
                                            .state_bytes = int64_t{1} << 28};

}  // namespace mnemon
