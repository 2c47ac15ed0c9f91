// SPDX-License-Identifier: MIT
// A typed payload of absl::Status that lets a caller act without reading the text. The
// engine and everything below it attach it; server/rpc turns it into google.rpc
// details; no other code depends on how it is stored.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace mnemon {

struct ErrorDetail {
  // UPPER_SNAKE_CASE, at most 63 characters: the stable name of the error.
  std::string reason;
  // The request field or flag at fault, in the request's own spelling; may be empty.
  std::string field = {};
  // Set if a retry of the same call can help, after this time.
  std::optional<std::chrono::milliseconds> retry_after = std::nullopt;
  // Further facts; small, no internal names, no paths.
  std::map<std::string, std::string> metadata = {};

  bool operator==(const ErrorDetail&) const = default;
};

// REQUIRES: code is not kOk.
absl::Status MakeError(absl::StatusCode code, std::string message, ErrorDetail detail);

// INVALID_ARGUMENT with reason INVALID_VALUE: the common case of a bad field.
absl::Status InvalidField(std::string field, std::string message);

// The payload of `status`; nullopt when it has none.
std::optional<ErrorDetail> GetErrorDetail(const absl::Status& status);

// The same error, payload included, with `context` and ": " before its message.
// REQUIRES: not OK.
absl::Status Annotated(const absl::Status& status, const std::string& context);

}  // namespace mnemon
