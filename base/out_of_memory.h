// SPDX-License-Identifier: MIT
// The status of a failed allocation, and the conversion of std::bad_alloc to it.
#pragma once

#include <new>
#include <string_view>

#include "absl/status/status.h"

namespace mnemon {

// RESOURCE_EXHAUSTED, reason OUT_OF_MEMORY, worth a retry after a second: "not enough
// memory for <what>"; without `what`, "out of memory". Allocates little; if even that
// fails, the error has no details.
absl::Status OutOfMemoryError(std::string_view what = {});

// Returns body(), a Status or a StatusOr, or OutOfMemoryError(what) if it throws
// std::bad_alloc. Other exceptions pass.
template <class Body>
auto CatchOutOfMemory(std::string_view what, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return OutOfMemoryError(what);
  }
}

}  // namespace mnemon
