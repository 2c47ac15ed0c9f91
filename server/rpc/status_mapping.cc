// SPDX-License-Identifier: MIT
#include "server/rpc/status_mapping.h"

#include <new>
#include <utility>

#include <google/protobuf/util/time_util.h>
#include <grpcpp/support/error_details.h>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/rpc/call_context.h"

namespace mnemon {
namespace {

constexpr char kDomain[] = "mnemon.dev";

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
  for (const auto& [key, value] : detail.metadata) add_metadata(key, value);
  if (!detail.field.empty() && !field_elsewhere) add_metadata("field", detail.field);
  google::protobuf::Any& any = *out.add_details();
  any.set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  any.set_value(std::move(info));
}

void AddCodeDetail(const PublicError& error, google::rpc::Status& out) {
  switch (error.code) {
    case absl::StatusCode::kInvalidArgument: {
      if (error.detail.field.empty()) return;
      google::rpc::BadRequest bad;
      bad.mutable_field_violations()->Reserve(1);
      auto* violation = bad.add_field_violations();
      violation->set_field(error.detail.field);
      violation->set_description(error.text);
      out.add_details()->PackFrom(bad);
      return;
    }
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists: {
      google::rpc::ResourceInfo info;
      info.set_resource_type(error.about_model ? "mnemon.dev/Model"
                                               : "mnemon.dev/Session");
      info.set_resource_name(error.resource);
      info.set_description(error.text);
      out.add_details()->PackFrom(info);
      return;
    }
    case absl::StatusCode::kResourceExhausted: {
      google::rpc::QuotaFailure quota;
      quota.mutable_violations()->Reserve(1);
      auto* violation = quota.add_violations();
      violation->set_subject(error.detail.reason);
      violation->set_description(error.text);
      out.add_details()->PackFrom(quota);
      return;
    }
    case absl::StatusCode::kFailedPrecondition: {
      google::rpc::PreconditionFailure failure;
      failure.mutable_violations()->Reserve(1);
      auto* violation = failure.add_violations();
      violation->set_type(error.detail.reason);
      violation->set_subject(error.resource);
      violation->set_description(error.text);
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
  *retry.mutable_retry_delay() =
      google::protobuf::util::TimeUtil::MillisecondsToDuration(delay.count());
  out.add_details()->PackFrom(retry);
  if (context != nullptr) {
    context->AddTrailingMetadata("grpc-retry-pushback-ms",
                                 std::to_string(delay.count()));
  }
}

grpc::Status Mapped(const absl::Status& status, const RequestScope& scope,
                    grpc::ServerContextBase* context) {
  RpcCaller* const caller = CallerOf(context);
  const PublicError error =
      MakePublicError(status, scope, caller == nullptr ? nullptr : &caller->progress());
  if (!error.detailed) {
    return grpc::Status(static_cast<grpc::StatusCode>(error.code), error.text);
  }
  google::rpc::Status details;
  // A repeated field that grows while memory runs out loses its new element.
  details.mutable_details()->Reserve(3);
  details.set_code(static_cast<int>(error.code));
  details.set_message(error.text);
  const bool in_bad_request = error.code == absl::StatusCode::kInvalidArgument;
  AddErrorInfo(error.detail, in_bad_request, details);
  AddCodeDetail(error, details);
  if (error.detail.retry_after) AddRetry(*error.detail.retry_after, details, context);

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

grpc::Status ToGrpcStatus(const absl::Status& status, const RequestScope& scope,
                          grpc::ServerContextBase* context) noexcept {
  if (status.ok()) return grpc::Status();
  try {
    return Mapped(status, scope, context);
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

}  // namespace mnemon
