// SPDX-License-Identifier: MIT
// Server reflection, grpc.reflection.v1alpha. gRPC's own lists every registered
// service, also one of which no method is there yet, and not the one for health, and
// takes a thread per stream.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <grpcpp/impl/service_type.h>

namespace mnemon {

// Lists `services`, health and reflection, and knows the files of all that is linked. A
// few streams at once; one more is refused with RESOURCE_EXHAUSTED.
std::unique_ptr<grpc::Service> MakeReflectionService(std::vector<std::string> services);

}  // namespace mnemon
