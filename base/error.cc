// SPDX-License-Identifier: MIT
#include "base/error.h"

#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

// The payload: reason, field, milliseconds or null, then keys and values, each a JSON
// scalar on a line of its own. Not an object, because the library allocates to destroy
// one, and terminates the process if that fails.
constexpr char kPayloadUrl[] = "type.mnemon.dev/ErrorDetail";

// Bytes that are not UTF-8 (a field can quote untrusted input) become U+FFFD.
std::string Line(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace) +
         "\n";
}

std::string TextOf(absl::string_view line) {
  return nlohmann::json::parse(line.begin(), line.end()).get<std::string>();
}

}  // namespace

absl::Status MakeError(absl::StatusCode code, std::string message, ErrorDetail detail) {
  MNEMON_CHECK(code != absl::StatusCode::kOk);
  std::string payload = Line(detail.reason) + Line(detail.field);
  if (detail.retry_after) {
    absl::StrAppend(&payload, detail.retry_after->count(), "\n");
  } else {
    payload += "null\n";
  }
  for (const auto& [key, value] : detail.metadata) payload += Line(key) + Line(value);
  absl::Status status(code, message);
  status.SetPayload(kPayloadUrl, absl::Cord(std::move(payload)));
  return status;
}

absl::Status InvalidField(std::string field, std::string message) {
  return MakeError(absl::StatusCode::kInvalidArgument, std::move(message),
                   {.reason = "INVALID_VALUE", .field = std::move(field)});
}

std::optional<ErrorDetail> GetErrorDetail(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload) return std::nullopt;
  const std::string text(*payload);
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  ErrorDetail detail{.reason = TextOf(lines.at(0)), .field = TextOf(lines.at(1))};
  int64_t milliseconds = 0;
  if (absl::SimpleAtoi(lines.at(2), &milliseconds)) {
    detail.retry_after = std::chrono::milliseconds(milliseconds);
  }
  for (size_t i = 3; i + 1 < lines.size(); i += 2) {
    detail.metadata[TextOf(lines[i])] = TextOf(lines[i + 1]);
  }
  return detail;
}

absl::Status Annotated(const absl::Status& status, const std::string& context) {
  absl::Status result(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&result](absl::string_view url, const absl::Cord& payload) {
    result.SetPayload(url, payload);
  });
  return result;
}

}  // namespace mnemon
