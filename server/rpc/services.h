// SPDX-License-Identifier: MIT
// The services of mnemon.v1 over an engine, which outlives them. One factory each.
#pragma once

#include <memory>

#include <grpcpp/impl/service_type.h>

#include "server/engine/engine.h"
#include "server/rpc/open_calls.h"
#include "server/rpc/rate_limit.h"

namespace mnemon {

// `calls` and `rate` outlive the services.
std::unique_ptr<grpc::Service> MakeGenerationService(Engine& engine, OpenCalls& calls,
                                                     RateLimit& rate);
std::unique_ptr<grpc::Service> MakeSessionsService(Engine& engine, RateLimit& rate);
std::unique_ptr<grpc::Service> MakeModelsService(const Engine& engine);
std::unique_ptr<grpc::Service> MakeAdminService();

}  // namespace mnemon
