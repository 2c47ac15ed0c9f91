// SPDX-License-Identifier: MIT
// Errors as callers are told them: what both doors say, each in its own form.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/strings.h"
#include "server/service/messages/names.h"

namespace mnemon {

class CallProgress;

struct PublicError {
  absl::StatusCode code;
  std::string text = {};  // at most about 800 bytes; hides the cause of internal errors
  // CANCELLED and DEADLINE_EXCEEDED carry no details.
  bool detailed = true;
  // Always with a reason. `field` is a path in the request; there is no retry_after
  // once something was delivered, where a retry would repeat it.
  ErrorDetail detail = {};
  // The name of the session or model that it is about; empty: none is known.
  std::string resource = {};
  bool about_model = false;
};

// The text of an INTERNAL or UNKNOWN error without a reason goes to the log instead.
// The reason goes into `progress`, which may be null. REQUIRES: not OK. May throw
// std::bad_alloc.
PublicError MakePublicError(const absl::Status& status, const RequestScope& scope,
                            CallProgress* progress);

// The same as a status, with the resource in its metadata; OK stays OK. OUT_OF_MEMORY
// when memory runs out.
absl::Status PublicStatus(const absl::Status& status, const RequestScope& scope,
                          CallProgress* progress) noexcept;

// The status that `body` returns, OK if none, or the one that its exception stands for:
// exceptions must not cross from handlers of calls to the threads that call them.
template <class Body>
absl::Status Guarded(const Body& body) {
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return absl::OkStatus();
    } else {
      return body();
    }
  } catch (const std::bad_alloc&) {
    return OutOfMemoryError();
  } catch (const std::exception& error) {
    return absl::InternalError(StrCat("exception: ", error.what()));
  } catch (...) {
    return absl::InternalError("exception of unknown type");
  }
}

}  // namespace mnemon
