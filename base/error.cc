// SPDX-License-Identifier: MIT
#include "base/error.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

constexpr char kPayloadUrl[] = "type.mnemon.dev/ErrorDetail";

}  // namespace

absl::Status MakeError(absl::StatusCode code, std::string message, ErrorDetail detail) {
  MNEMON_CHECK(code != absl::StatusCode::kOk);
  nlohmann::json json = {{"reason", detail.reason}, {"field", detail.field}};
  if (detail.retry_after) json["retry_after_ms"] = detail.retry_after->count();
  json["metadata"] = detail.metadata;
  absl::Status status(code, message);
  // Bytes that are not UTF-8 (a field can quote hostile input) become U+FFFD.
  status.SetPayload(
      kPayloadUrl,
      absl::Cord(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  return status;
}

absl::Status InvalidField(std::string field, std::string message) {
  return MakeError(absl::StatusCode::kInvalidArgument, std::move(message),
                   {.reason = "INVALID_VALUE", .field = std::move(field)});
}

std::optional<ErrorDetail> GetErrorDetail(const absl::Status& status) {
  auto payload = status.GetPayload(kPayloadUrl);
  if (!payload) return std::nullopt;
  nlohmann::json json = nlohmann::json::parse(std::string(*payload), nullptr, false);
  if (!json.is_object()) return std::nullopt;
  ErrorDetail detail;
  detail.reason = json.value("reason", "");
  detail.field = json.value("field", "");
  if (json.contains("retry_after_ms")) {
    detail.retry_after =
        std::chrono::milliseconds(json["retry_after_ms"].get<int64_t>());
  }
  detail.metadata = json.value("metadata", std::map<std::string, std::string>{});
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
