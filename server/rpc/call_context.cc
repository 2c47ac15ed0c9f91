// SPDX-License-Identifier: MIT
#include "server/rpc/call_context.h"

#include <algorithm>
#include <chrono>
#include <string>

#include <grpc/grpc.h>

#include "base/error.h"
#include "server/rpc/status_mapping.h"

namespace mnemon {

std::optional<Caller::Time> RpcCaller::deadline() const {
  using std::chrono::system_clock;
  const system_clock::time_point deadline = context_.deadline();
  const system_clock::time_point now = system_clock::now();
  // Without a deadline gRPC gives the greatest time.
  constexpr std::chrono::hours kNone{24 * 36525};
  if (deadline > now + kNone) return std::nullopt;
  return std::chrono::steady_clock::now() + (std::max(deadline, now) - now);
}

std::function<void(const absl::Status&)> RpcCaller::CancelFunction() {
  // Of gRPC's core: the context, and with it TryCancel, may be gone when the function
  // is called.
  grpc_call_ref(context_.c_call());
  std::shared_ptr<grpc_call> transport(context_.c_call(), grpc_call_unref);
  return [transport = std::move(transport), call = call_](const absl::Status& status) {
    call->ReplaceEnd(status.code(),
                     GetErrorDetail(status).value_or(ErrorDetail{}).reason);
    grpc_call_cancel_with_status(transport.get(),
                                 static_cast<grpc_status_code>(status.code()),
                                 std::string(status.message()).c_str(), nullptr);
  };
}

void RpcCaller::Answer(const absl::Status& status, const RequestScope& scope) {
  reactor_->Finish(ToGrpcStatus(status, scope, &context_));
}

}  // namespace mnemon
