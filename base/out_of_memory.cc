// SPDX-License-Identifier: MIT
#include "base/out_of_memory.h"

#include <chrono>
#include <new>
#include <string>

#include "base/error.h"
#include "base/strings.h"

namespace mnemon {

absl::Status OutOfMemoryError(std::string_view what) try {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      what.empty() ? std::string("out of memory")
                   : StrCat("not enough memory for ", what),
      {.reason = "OUT_OF_MEMORY", .retry_after = std::chrono::milliseconds(1000)});
} catch (const std::bad_alloc&) {
  return absl::Status(absl::StatusCode::kResourceExhausted, "");
}

}  // namespace mnemon
