// SPDX-License-Identifier: MIT
#include "server/service/caller.h"

#include <new>

namespace mnemon {

absl::Status EndOfCaller(const Caller& caller) {
  const auto deadline = caller.deadline();
  const bool late = deadline && *deadline <= std::chrono::steady_clock::now();
  const auto code =
      late ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kCancelled;
  try {
    return absl::Status(code,
                        late ? "the deadline has passed" : "cancelled by the caller");
  } catch (const std::bad_alloc&) {
    return absl::Status(code, "");
  }
}

}  // namespace mnemon
