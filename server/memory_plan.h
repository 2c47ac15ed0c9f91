// SPDX-License-Identifier: MIT
// How the memory that a server may take is divided.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace mnemon {

// What --memory is without the flag: 80 % of the memory of the machine, or of the
// smallest limit of the control groups that the process is in.
int64_t DefaultMemory();

// Of `memory`, what is set aside for messages on their way in or out: an eighth, at
// least 64 MiB and at most 512 MiB.
int64_t TransportBytes(int64_t memory);

// What is set aside for the program itself: libraries, threads, scratch memory of
// steps, what the allocator keeps.
inline constexpr int64_t kProcessBytes = int64_t{64} << 20;

// Of `memory`, what the engine may take beside weights of `weights` bytes: what the
// others leave. RESOURCE_EXHAUSTED, MEMORY, field "memory", when that is less than
// `session`, the bytes of the largest session.
absl::StatusOr<int64_t> EngineBytes(int64_t memory, int64_t weights, int64_t session);

}  // namespace mnemon
