// SPDX-License-Identifier: MIT
// The reactor of Generation.Predict.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "mnemon/v1/generation.pb.h"
#include "server/engine/engine.h"

namespace mnemon {

grpc::ServerUnaryReactor* StartPredict(Engine& engine,
                                       grpc::CallbackServerContext* context,
                                       const v1::PredictRequest* request,
                                       v1::PredictResponse* response);

}  // namespace mnemon
