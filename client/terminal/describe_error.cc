// SPDX-License-Identifier: MIT
#include "client/terminal/describe_error.h"

#include <string>

#include "base/error.h"
#include "base/strings.h"

namespace mnemon::client {

absl::Status Described(const absl::Status& status) {
  if (status.ok()) return status;
  std::string text =
      StrCat(status.message(), " (", absl::StatusCodeToString(status.code()));
  if (const auto detail = GetErrorDetail(status)) {
    if (!detail->reason.empty()) text += StrCat(", ", detail->reason);
    if (!detail->field.empty()) text += StrCat(", field ", detail->field);
    if (detail->retry_after) {
      text += StrCat(", retry after ", detail->retry_after->count(), " ms");
    }
  }
  return absl::Status(status.code(), text + ")");
}

}  // namespace mnemon::client
