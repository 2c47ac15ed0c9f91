// SPDX-License-Identifier: MIT
// The mapping from statuses of the engine to those of gRPC: code, text, and google.rpc
// details in the trailer grpc-status-details-bin. The only user of google.rpc on the
// server.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace mnemon {

// A field as the engine names it, and its path in the request.
struct FieldPath {
  std::string_view engine;
  std::string_view request;
};

// The names that errors of one call use: those of its request.
struct RequestScope {
  std::string session;  // "sessions/x" or empty
  std::string model;    // "models/x" or empty
  std::vector<FieldPath> paths;
};

// Every error carries ErrorInfo (but CANCELLED and DEADLINE_EXCEEDED, which carry
// nothing); further details follow from the code: BadRequest, ResourceInfo,
// QuotaFailure, PreconditionFailure, and RetryInfo where a retry can help, which it
// cannot once something was delivered. The text of an INTERNAL error without a reason
// stays in the log. Adds the trailer grpc-retry-pushback-ms to `context`, which may be
// null, and the reason to the record of its call. When memory for all that runs out:
// RESOURCE_EXHAUSTED, OUT_OF_MEMORY; where that takes too much too, without text and
// details.
grpc::Status ToGrpcStatus(const absl::Status& status, const RequestScope& scope,
                          grpc::ServerContextBase* context) noexcept;

// The path in the request of `field`, which may have an index: "prompt[3]".
std::string RequestPath(const std::string& field, const RequestScope& scope);

// UNIMPLEMENTED for a request field or a method that a later version brings.
absl::Status FieldNotAvailable(std::string_view field);
absl::Status MethodNotAvailable(std::string_view method);

}  // namespace mnemon
