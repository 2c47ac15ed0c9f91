// SPDX-License-Identifier: MIT
#include "server/rpc/status_mapping.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include <grpcpp/support/error_details.h>

#include "base/error.h"
#include "base/log.h"
#include "base/out_of_memory.h"
#include "base/strings.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/rpc/call_context.h"
#include "server/rpc/resource_name.h"

namespace mnemon {
namespace {

constexpr char kDomain[] = "mnemon.dev";
// Text and details share the 8 KB of a trailer, text up to five times over.
constexpr size_t kMaxText = 800;
constexpr size_t kMaxMetadata = 1000;

std::string Shortened(std::string text) {
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

std::string PublicText(const absl::Status& status, const std::string& request_id) {
  const bool ours = status.code() != absl::StatusCode::kInternal &&
                    status.code() != absl::StatusCode::kUnknown;
  if (ours || GetErrorDetail(status)) return Shortened(std::string(status.message()));
  LogEvent(LogLevel::kError, "call_failed",
           {{"request_id", request_id}, {"error", status.ToString()}});
  return "internal error; its cause is in the server's log";
}

void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// A field of the wire type LEN.
void AppendBytes(int field, std::string_view bytes, std::string& out) {
  AppendVarint(static_cast<uint64_t>(field) << 3 | 2, out);
  AppendVarint(bytes.size(), out);
  out += bytes;
}

// Written by hand: when an allocation of protobuf's Map fails, its destructor reads
// memory that is not its own.
void AddErrorInfo(const ErrorDetail& detail, bool field_elsewhere,
                  google::rpc::Status& out) {
  using google::rpc::ErrorInfo;
  std::string info;
  const auto add_metadata = [&info](std::string_view key, std::string_view value) {
    std::string entry;
    AppendBytes(1, key, entry);
    AppendBytes(2, value, entry);
    AppendBytes(ErrorInfo::kMetadataFieldNumber, entry, info);
  };
  AppendBytes(ErrorInfo::kReasonFieldNumber, detail.reason, info);
  AppendBytes(ErrorInfo::kDomainFieldNumber, kDomain, info);
  size_t size = 0;
  for (const auto& [key, value] : detail.metadata) {
    size += key.size() + value.size();
    if (size > kMaxMetadata) break;
    add_metadata(key, value);
  }
  if (!detail.field.empty() && !field_elsewhere) {
    add_metadata("field", Shortened(detail.field));
  }
  google::protobuf::Any& any = *out.add_details();
  any.set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  any.set_value(std::move(info));
}

google::rpc::ResourceInfo MakeResourceInfo(const ErrorDetail& detail,
                                           const RequestScope& scope,
                                           const std::string& text) {
  const bool model = detail.reason.rfind("MODEL", 0) == 0;
  google::rpc::ResourceInfo info;
  info.set_resource_type(model ? "mnemon.dev/Model" : "mnemon.dev/Session");
  // The session at fault may be another one than that of the request.
  const auto session = detail.metadata.find("session");
  if (session != detail.metadata.end()) {
    info.set_resource_name(SessionResource(session->second));
  } else {
    info.set_resource_name(model ? scope.model : scope.session);
  }
  info.set_description(text);
  return info;
}

void AddCodeDetail(absl::StatusCode code, const ErrorDetail& detail,
                   const RequestScope& scope, const std::string& text,
                   google::rpc::Status& out) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument: {
      if (detail.field.empty()) return;
      google::rpc::BadRequest bad;
      bad.mutable_field_violations()->Reserve(1);
      auto* violation = bad.add_field_violations();
      violation->set_field(detail.field);
      violation->set_description(text);
      out.add_details()->PackFrom(bad);
      return;
    }
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
      out.add_details()->PackFrom(MakeResourceInfo(detail, scope, text));
      return;
    case absl::StatusCode::kResourceExhausted: {
      google::rpc::QuotaFailure quota;
      quota.mutable_violations()->Reserve(1);
      auto* violation = quota.add_violations();
      violation->set_subject(detail.reason);
      violation->set_description(text);
      out.add_details()->PackFrom(quota);
      return;
    }
    case absl::StatusCode::kFailedPrecondition: {
      google::rpc::PreconditionFailure failure;
      failure.mutable_violations()->Reserve(1);
      auto* violation = failure.add_violations();
      violation->set_type(detail.reason);
      violation->set_subject(scope.session.empty() ? scope.model : scope.session);
      violation->set_description(text);
      out.add_details()->PackFrom(failure);
      return;
    }
    default:
      return;
  }
}

void AddRetry(std::chrono::milliseconds delay, google::rpc::Status& out,
              grpc::ServerContextBase* context) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(delay.count() / 1000);
  retry.mutable_retry_delay()->set_nanos(
      static_cast<int32_t>(delay.count() % 1000 * 1000000));
  out.add_details()->PackFrom(retry);
  if (context != nullptr) {
    context->AddTrailingMetadata("grpc-retry-pushback-ms",
                                 std::to_string(delay.count()));
  }
}

// Of an error.
grpc::Status Mapped(const absl::Status& status, const RequestScope& scope,
                    grpc::ServerContextBase* context) {
  const auto code = static_cast<grpc::StatusCode>(status.code());
  RpcCall* const call = CallOf(context);
  const std::string text = PublicText(status, call ? call->request_id() : "");
  if (status.code() == absl::StatusCode::kCancelled ||
      status.code() == absl::StatusCode::kDeadlineExceeded) {
    return grpc::Status(code, text);
  }
  ErrorDetail detail = DetailOf(status);
  detail.field = Shortened(RequestPath(detail.field, scope));
  if (call != nullptr) {
    call->SetReason(detail.reason);
    // A retry would repeat what the caller has, unless the engine says otherwise.
    if (call->delivered() && !detail.metadata.contains("prompt_taken")) {
      detail.retry_after.reset();
    }
  }

  google::rpc::Status details;
  // A repeated field that grows while memory runs out loses its new element.
  details.mutable_details()->Reserve(3);
  details.set_code(static_cast<int>(status.code()));
  details.set_message(text);
  const bool in_bad_request = status.code() == absl::StatusCode::kInvalidArgument;
  AddErrorInfo(detail, in_bad_request, details);
  AddCodeDetail(status.code(), detail, scope, text, details);
  if (detail.retry_after) AddRetry(*detail.retry_after, details, context);

  grpc::Status out;
  grpc::SetErrorDetails(details, &out);
  return out;
}

// Made once; a copy takes little memory.
grpc::Status OutOfMemory() noexcept {
  try {
    static const grpc::Status made = Mapped(OutOfMemoryError(), {}, nullptr);
    return made;
  } catch (const std::bad_alloc&) {
    // Empty strings need no memory.
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, std::string());
  }
}

}  // namespace

std::string RequestPath(const std::string& field, const RequestScope& scope) {
  const size_t name_size = std::min(field.find('['), field.size());
  const std::string_view name = std::string_view(field).substr(0, name_size);
  for (const FieldPath& path : scope.paths) {
    if (path.engine == name) return StrCat(path.request, field.substr(name_size));
  }
  return field;
}

grpc::Status ToGrpcStatus(const absl::Status& status, const RequestScope& scope,
                          grpc::ServerContextBase* context) noexcept {
  if (status.ok()) return grpc::Status();
  try {
    return Mapped(status, scope, context);
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

absl::Status FieldNotAvailable(std::string_view field) {
  return MakeError(absl::StatusCode::kUnimplemented,
                   StrCat(field, " is not available in this version; leave it unset"),
                   {.reason = "FIELD_UNIMPLEMENTED", .field = std::string(field)});
}

absl::Status MethodNotAvailable(std::string_view method) {
  return MakeError(absl::StatusCode::kUnimplemented,
                   StrCat(method, " is not available in this version"),
                   {.reason = "METHOD_UNIMPLEMENTED",
                    .metadata = {{"method", std::string(method)}}});
}

}  // namespace mnemon
