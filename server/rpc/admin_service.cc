// SPDX-License-Identifier: MIT
#include "mnemon/v1/admin.grpc.pb.h"
#include "server/rpc/not_available.h"
#include "server/rpc/services.h"

namespace mnemon {
namespace {

class AdminService final : public v1::Admin::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetLoad(grpc::CallbackServerContext* context,
                                    const v1::GetLoadRequest*, v1::Load*) override {
    return UnaryNotAvailable(context, "GetLoad");
  }

  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest*,
                                  v1::DrainResponse*) override {
    return UnaryNotAvailable(context, "Drain");
  }
};

}  // namespace

std::unique_ptr<grpc::Service> MakeAdminService() {
  return std::make_unique<AdminService>();
}

}  // namespace mnemon
