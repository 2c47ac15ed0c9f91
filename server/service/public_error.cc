// SPDX-License-Identifier: MIT
#include "server/service/public_error.h"

#include <map>
#include <optional>

#include "base/log.h"
#include "server/service/access_record.h"

namespace mnemon {
namespace {

// Text and details share the 8 KB of a trailer of gRPC, text up to five times over.
constexpr size_t kMaxText = 800;
constexpr size_t kMaxMetadata = 1000;

std::string ShortText(std::string text) {
  if (text.size() <= kMaxText) return text;
  size_t end = kMaxText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

ErrorDetail DetailOf(const absl::Status& status) {
  std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail) detail.emplace();
  if (detail->reason.empty()) detail->reason = absl::StatusCodeToString(status.code());
  return *std::move(detail);
}

std::string PublicText(const absl::Status& status, const CallProgress* progress) {
  const bool ours = status.code() != absl::StatusCode::kInternal &&
                    status.code() != absl::StatusCode::kUnknown;
  if (ours || GetErrorDetail(status)) return ShortText(std::string(status.message()));
  LogEvent(LogLevel::kError, "call_failed",
           {{"request_id", progress == nullptr ? "" : progress->request_id()},
            {"error", status.ToString()}});
  return "internal error; its cause is in the server's log";
}

void SetResource(const RequestScope& scope, PublicError& error) {
  error.about_model = error.detail.reason.rfind("MODEL", 0) == 0;
  if (error.code == absl::StatusCode::kFailedPrecondition) {
    error.resource = scope.session.empty() ? scope.model : scope.session;
    return;
  }
  if (error.code != absl::StatusCode::kNotFound &&
      error.code != absl::StatusCode::kAlreadyExists) {
    return;
  }
  // The session at fault may be another one than that of the request.
  const auto session = error.detail.metadata.find("session");
  if (session != error.detail.metadata.end()) {
    error.resource = SessionResource(session->second);
  } else {
    error.resource = error.about_model ? scope.model : scope.session;
  }
}

void CutMetadata(std::map<std::string, std::string>& metadata) {
  size_t size = 0;
  for (auto entry = metadata.begin(); entry != metadata.end(); ++entry) {
    size += entry->first.size() + entry->second.size();
    if (size <= kMaxMetadata) continue;
    metadata.erase(entry, metadata.end());
    return;
  }
}

}  // namespace

PublicError MakePublicError(const absl::Status& status, const RequestScope& scope,
                            CallProgress* progress) {
  PublicError error{.code = status.code(), .text = PublicText(status, progress)};
  if (status.code() == absl::StatusCode::kCancelled ||
      status.code() == absl::StatusCode::kDeadlineExceeded) {
    error.detailed = false;
    return error;
  }
  error.detail = DetailOf(status);
  error.detail.field = ShortText(RequestPath(error.detail.field, scope));
  if (progress != nullptr) {
    progress->SetReason(error.detail.reason);
    // A retry would repeat what the caller has, unless the engine says otherwise.
    if (progress->delivered() && !error.detail.metadata.contains("prompt_taken")) {
      error.detail.retry_after.reset();
    }
  }
  SetResource(scope, error);
  CutMetadata(error.detail.metadata);
  return error;
}

absl::Status PublicStatus(const absl::Status& status, const RequestScope& scope,
                          CallProgress* progress) noexcept {
  if (status.ok()) return status;
  return CatchOutOfMemory({}, [&] {
    PublicError error = MakePublicError(status, scope, progress);
    if (!error.detailed) return absl::Status(error.code, error.text);
    if (!error.resource.empty()) {
      error.detail.metadata.emplace("resource", std::move(error.resource));
    }
    return MakeError(error.code, std::move(error.text), std::move(error.detail));
  });
}

}  // namespace mnemon
