// SPDX-License-Identifier: MIT
// The mapping from statuses of the engine to those of gRPC: code, text, and google.rpc
// details in the trailer grpc-status-details-bin. The only user of google.rpc on the
// server.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "server/service/public_error.h"

namespace mnemon {

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

}  // namespace mnemon
