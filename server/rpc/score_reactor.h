// SPDX-License-Identifier: MIT
// The reactor of Generation.Score.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "mnemon/v1/generation.pb.h"
#include "server/engine/engine.h"
#include "server/rpc/open_calls.h"

namespace mnemon {

// Reads a part, answers it to its end, and only then reads the next one, so a caller
// that sends faster than the model judges is slowed down by the transport.
grpc::ServerBidiReactor<v1::ScoreRequest, v1::ScoreResponse>* StartScore(
    Engine& engine, OpenCalls& calls, grpc::CallbackServerContext* context);

}  // namespace mnemon
