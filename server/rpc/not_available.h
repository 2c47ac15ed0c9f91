// SPDX-License-Identifier: MIT
// Answers to methods that a later version brings: UNIMPLEMENTED with the usual details.
#pragma once

#include <string_view>

#include <grpcpp/server_context.h>

#include "server/rpc/guard.h"
#include "server/rpc/status_mapping.h"

namespace mnemon {

inline grpc::Status NotAvailable(grpc::CallbackServerContext* context,
                                 std::string_view method) {
  return ToGrpcStatus(MethodNotAvailable(method), {}, context);
}

template <class Reactor>
Reactor* StreamNotAvailable(grpc::CallbackServerContext* context,
                            std::string_view method) {
  return new EndedReactor<Reactor>(NotAvailable(context, method));
}

inline grpc::ServerUnaryReactor* UnaryNotAvailable(grpc::CallbackServerContext* context,
                                                   std::string_view method) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(NotAvailable(context, method));
  return reactor;
}

}  // namespace mnemon
