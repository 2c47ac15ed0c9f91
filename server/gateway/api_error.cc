// SPDX-License-Identifier: MIT
#include "server/gateway/api_error.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/quote.h"
#include "base/strings.h"

namespace mnemon {
namespace {

struct CodeForm {
  absl::StatusCode code;
  int http;
  const char* type;
};

constexpr char kInvalid[] = "invalid_request_error";
constexpr char kServer[] = "server_error";

// The HTTP codes are those of google.rpc.Code.
constexpr CodeForm kForms[] = {
    {absl::StatusCode::kInvalidArgument, 400, kInvalid},
    {absl::StatusCode::kFailedPrecondition, 400, kInvalid},
    {absl::StatusCode::kOutOfRange, 400, kInvalid},
    {absl::StatusCode::kUnauthenticated, 401, "authentication_error"},
    {absl::StatusCode::kPermissionDenied, 403, "permission_error"},
    {absl::StatusCode::kNotFound, 404, "not_found_error"},
    {absl::StatusCode::kAlreadyExists, 409, "conflict_error"},
    {absl::StatusCode::kAborted, 409, "conflict_error"},
    {absl::StatusCode::kResourceExhausted, 429, "rate_limit_error"},
    {absl::StatusCode::kCancelled, 499, kInvalid},
    {absl::StatusCode::kUnimplemented, 501, kInvalid},
    {absl::StatusCode::kUnavailable, 503, kServer},
    {absl::StatusCode::kDeadlineExceeded, 504, kServer},
    {absl::StatusCode::kInternal, 500, kServer},
};

CodeForm FormOf(absl::StatusCode code) {
  const auto* const found =
      std::find_if(std::begin(kForms), std::end(kForms),
                   [code](const CodeForm& form) { return form.code == code; });
  return found == std::end(kForms) ? CodeForm{code, 500, kServer} : *found;
}

// Errors of the HTTP side alone have codes of their own.
int HttpCode(absl::StatusCode code, const std::string& reason) {
  if (reason == "METHOD_NOT_ALLOWED") return 405;
  if (reason == "BODY_TOO_LARGE") return 413;
  if (reason == "ENCODING_NOT_SUPPORTED") return 415;
  // A field, and not a method: a client must not try again.
  if (reason == "FIELD_UNIMPLEMENTED" || reason == "MODEL_KIND") return 400;
  return FormOf(code).http;
}

}  // namespace

nlohmann::json ErrorJson(const absl::Status& status) {
  const std::string name = absl::StatusCodeToString(status.code());
  const ErrorDetail detail = GetErrorDetail(status).value_or(ErrorDetail{});
  nlohmann::json error = {
      {"message", std::string(status.message())},
      {"type", FormOf(status.code()).type},
      {"param", detail.field.empty() ? nlohmann::json() : nlohmann::json(detail.field)},
      {"code", detail.reason.empty() ? name : detail.reason},
      {"status", name}};
  if (detail.retry_after) error["retry_after_ms"] = detail.retry_after->count();
  if (!detail.metadata.empty()) error["metadata"] = detail.metadata;
  return {{"error", std::move(error)}};
}

HttpResponse ErrorResponse(const absl::Status& status) {
  const ErrorDetail detail = GetErrorDetail(status).value_or(ErrorDetail{});
  HttpResponse response{
      .code = HttpCode(status.code(), detail.reason),
      .type = "application/json",
      .body = ErrorJson(status).dump(-1, ' ', false,
                                     nlohmann::json::error_handler_t::replace) +
              "\n"};
  if (detail.retry_after) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(*detail.retry_after);
    response.headers.push_back({"Retry-After", StrCat(seconds.count())});
    response.headers.push_back({"Retry-After-Ms", StrCat(detail.retry_after->count())});
  }
  return response;
}

absl::Status PathNotFound(const std::string& path) {
  return MakeError(absl::StatusCode::kNotFound,
                   StrCat("there is no ", Quoted(path.substr(0, 200)),
                          "; docs/http_api.md lists the paths"),
                   {.reason = "PATH_NOT_FOUND"});
}

}  // namespace mnemon
