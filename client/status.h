// SPDX-License-Identifier: MIT
// Conversion of gRPC statuses with google.rpc details to absl::Status.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace mnemon::client {

// Code and text, and the typed payload if the details are present.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace mnemon::client
