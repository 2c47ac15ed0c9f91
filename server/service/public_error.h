// SPDX-License-Identifier: MIT
// Errors as callers are told them: what both doors say, each in its own form.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/error.h"
#include "server/service/messages/request_scope.h"

namespace mnemon {

class CallProgress;

struct PublicError {
  absl::StatusCode code;
  std::string text;  // at most about 800 bytes; hides the cause of internal errors
  // CANCELLED and DEADLINE_EXCEEDED carry no details.
  bool detailed = true;
  // Always with a reason. `field` is a path in the request; there is no retry_after
  // once something was delivered, where a retry would repeat it.
  ErrorDetail detail;
  // The name of the session or model that it is about; empty: none is known.
  std::string resource;
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

}  // namespace mnemon
