// SPDX-License-Identifier: MIT
// The services of a server as gRPC calls them. Methods that a later version brings are
// not overridden: gRPC's generated base answers UNIMPLEMENTED, and the interceptor of
// call_context.h adds the details. What is passed outlives the services.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <grpcpp/impl/service_type.h>

#include "server/engine/engine.h"
#include "server/rpc/server.h"
#include "server/service/call_services.h"
#include "server/service/drain.h"

namespace mnemon {

// Generation, Models and Sessions.
std::vector<std::unique_ptr<grpc::Service>> MakeMethodServices(
    const CallServices& parts);

// Admin, for the peers of `options`, with its grace; others are refused with
// PERMISSION_DENIED, NOT_LOOPBACK.
std::unique_ptr<grpc::Service> MakeAdminService(const Engine& engine, Drain& drain,
                                                const RpcOptions& options);

// Server reflection, grpc.reflection.v1alpha: lists `services`, health and reflection,
// and knows the files of all that is linked. More than a few streams at once are
// refused with RESOURCE_EXHAUSTED. gRPC's own lists every registered service, even one
// without methods, not the one for health, and takes a thread per stream.
std::unique_ptr<grpc::Service> MakeReflectionService(std::vector<std::string> services);

}  // namespace mnemon
