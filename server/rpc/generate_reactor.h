// SPDX-License-Identifier: MIT
#pragma once

#include <grpcpp/server_context.h>

#include "mnemon/v1/generation.pb.h"
#include "server/engine/engine.h"
#include "server/rpc/open_calls.h"

namespace mnemon {

// Runs one Generate call. One write is in flight at a time; tokens coalesce meanwhile.
// The reactor deletes itself at the end of the call. `engine`, `calls` and `context`
// outlive the call; so does `request`.
grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerate(
    Engine& engine, OpenCalls& calls, grpc::CallbackServerContext* context,
    const v1::GenerateRequest* request);

}  // namespace mnemon
