// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include <grpcpp/support/server_interceptor.h>

#include "server/rpc/call_record.h"

namespace mnemon {

// For every call: an id in the log and in the trailer x-request-id, a log line when it
// ends, and `watch`.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeCallInterceptors(CallWatch watch);

}  // namespace mnemon
