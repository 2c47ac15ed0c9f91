// SPDX-License-Identifier: MIT
#include "server/memory_plan.h"

#include <algorithm>

#include "base/control_groups.h"
#include "base/error.h"
#include "base/strings.h"

namespace mnemon {

int64_t DefaultMemory() { return UsableMemory() / 5 * 4; }

int64_t TransportBytes(int64_t memory) {
  return std::clamp(memory / 8, int64_t{64} << 20, int64_t{512} << 20);
}

absl::StatusOr<int64_t> EngineBytes(int64_t memory, int64_t weights, int64_t session) {
  const int64_t left = memory - weights - TransportBytes(memory) - kProcessBytes;
  if (left >= session) return left;
  const int64_t rest = weights + session + kProcessBytes;
  const int64_t transport = TransportBytes(rest / 7 * 8);
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      StrCat("--memory is ", memory, " bytes; the weights take ", weights,
             ", one full session ", session, ", messages and the program itself ",
             transport + kProcessBytes, ": at least ", rest + transport, " are needed"),
      {.reason = "MEMORY", .field = "memory"});
}

}  // namespace mnemon
