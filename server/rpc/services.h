// SPDX-License-Identifier: MIT
// The services of mnemon.v1 as gRPC calls them, one factory each. Methods that a later
// version brings are not overridden: gRPC's generated base answers UNIMPLEMENTED, and
// the interceptor of call_context.h adds the details. What is passed outlives the
// services.
#pragma once

#include <chrono>
#include <memory>

#include <grpcpp/impl/service_type.h>

#include "server/engine/engine.h"
#include "server/service/call_services.h"
#include "server/service/drain.h"

namespace mnemon {

std::unique_ptr<grpc::Service> MakeGenerationService(const CallServices& parts);
std::unique_ptr<grpc::Service> MakeSessionsService(const CallServices& parts);
std::unique_ptr<grpc::Service> MakeModelsService(const CallServices& parts);

struct AdminOptions {
  bool only_loopback = true;  // others are refused: PERMISSION_DENIED, NOT_LOOPBACK
  std::chrono::milliseconds grace{30000};  // of a drain that does not say how long
};
std::unique_ptr<grpc::Service> MakeAdminService(const Engine& engine, Drain& drain,
                                                const AdminOptions& options);

}  // namespace mnemon
