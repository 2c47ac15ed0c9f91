// SPDX-License-Identifier: MIT
// The boundary between the handlers of calls and the threads that call them, which
// exceptions must not cross.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "base/out_of_memory.h"
#include "base/strings.h"

namespace mnemon {

// The status that `body` returns, or the one that its exception stands for.
template <class Body>
absl::Status Guarded(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return OutOfMemoryError();
  } catch (const std::exception& error) {
    return absl::InternalError(StrCat("exception: ", error.what()));
  } catch (...) {
    return absl::InternalError("exception of unknown type");
  }
}

}  // namespace mnemon
