// SPDX-License-Identifier: MIT
// Statuses of the engine as those of gRPC: code, text, and google.rpc details in the
// trailer grpc-status-details-bin. The only user of google.rpc on the server.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "server/service/public_error.h"

namespace mnemon {

// The error of MakePublicError. ErrorInfo is its first detail; others follow from the
// code: BadRequest, ResourceInfo, QuotaFailure, PreconditionFailure, and RetryInfo with
// retry_after. Adds the trailer grpc-retry-pushback-ms to `context`, which may be null,
// and the reason to the record of its call. When memory runs out: RESOURCE_EXHAUSTED,
// OUT_OF_MEMORY; if that takes too much too, without text and details.
grpc::Status ToGrpcStatus(const absl::Status& status, const RequestScope& scope,
                          grpc::ServerContextBase* context) noexcept;

}  // namespace mnemon
