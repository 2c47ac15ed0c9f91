// SPDX-License-Identifier: MIT
#include "client/status.h"

#include <chrono>

#include "base/error.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace mnemon::client {
namespace {

// Limits for data from an untrusted server.
constexpr int64_t kMaxRetrySeconds = 24 * 3600;

absl::StatusCode ToCode(grpc::StatusCode code) {
  const int value = static_cast<int>(code);
  const bool known = value >= 0 && value <= 16;
  return known ? static_cast<absl::StatusCode>(value) : absl::StatusCode::kUnknown;
}

void SetResource(const std::string& name, ErrorDetail& detail) {
  if (!name.empty()) detail.metadata.emplace("resource", name);
}

void Read(const google::protobuf::Any& any, ErrorDetail& detail) {
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad;
  google::rpc::RetryInfo retry;
  google::rpc::ResourceInfo resource;
  google::rpc::PreconditionFailure failure;
  if (any.UnpackTo(&info)) {
    detail.reason = info.reason();
    for (const auto& [key, value] : info.metadata()) {
      if (key == "field") {
        detail.field = value;
      } else {
        detail.metadata[key] = value;
      }
    }
  } else if (any.UnpackTo(&bad) && bad.field_violations_size() > 0) {
    detail.field = bad.field_violations(0).field();
  } else if (any.UnpackTo(&resource)) {
    SetResource(resource.resource_name(), detail);
  } else if (any.UnpackTo(&failure) && failure.violations_size() > 0) {
    SetResource(failure.violations(0).subject(), detail);
  } else if (any.UnpackTo(&retry)) {
    const auto& delay = retry.retry_delay();
    if (delay.seconds() < 0 || delay.seconds() > kMaxRetrySeconds) return;
    detail.retry_after =
        std::chrono::milliseconds(delay.seconds() * 1000 + delay.nanos() / 1000000);
  }
}

}  // namespace

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const absl::StatusCode code = ToCode(status.error_code());
  google::rpc::Status details;
  if (status.error_details().empty() ||
      !details.ParseFromString(status.error_details())) {
    return absl::Status(code, status.error_message());
  }
  ErrorDetail detail;
  for (const google::protobuf::Any& any : details.details()) Read(any, detail);
  return MakeError(code, status.error_message(), detail);
}

}  // namespace mnemon::client
