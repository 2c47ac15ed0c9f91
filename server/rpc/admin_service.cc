// SPDX-License-Identifier: MIT
#include <chrono>

#include "base/error.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "mnemon/v1/admin.grpc.pb.h"
#include "server/rpc/reactors.h"
#include "server/rpc/services.h"
#include "server/rpc/status_mapping.h"
#include "server/service/drain.h"
#include "server/service/messages/messages.h"
#include "server/transport/peer_text.h"

namespace mnemon {
namespace {

using Context = grpc::CallbackServerContext;
using Unary = grpc::ServerUnaryReactor;
using std::chrono::milliseconds;

absl::StatusOr<milliseconds> GraceOf(const v1::DrainRequest& request,
                                     milliseconds otherwise) {
  if (!request.has_grace()) return otherwise;
  MNEMON_ASSIGN_OR_RETURN(const milliseconds grace,
                          FromDuration(request.grace(), "grace"));
  const bool negative = request.grace().seconds() < 0 || request.grace().nanos() < 0;
  if (negative || grace > kMaxGrace) {
    return InvalidField("grace",
                        StrCat("grace must be 0 to ", kMaxGrace.count(), " seconds"));
  }
  return grace;
}

template <class Body>
Unary* Answer(Context* context, const Body& body) {
  Unary* const reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(Guarded(body), {}, context));
  return reactor;
}

// Finished once: by the drain, or by its caller's end, whichever comes first. It is no
// open call, for which the drain would wait.
class DrainReactor final : public Unary {
 public:
  DrainReactor(Drain& drain, Context* context, milliseconds grace)
      : drain_(drain),
        context_(context),
        id_(drain.Join(grace, [this] { Finish(grpc::Status::OK); })) {}

  void OnCancel() override {
    if (!drain_.Leave(id_)) return;
    Finish(ToGrpcStatus(EndOfCaller(*CallerOf(context_)), {}, context_));
  }

  void OnDone() override { delete this; }

 private:
  Drain& drain_;
  Context* const context_;
  const uint64_t id_;
};

class AdminService final : public v1::Admin::CallbackService {
 public:
  AdminService(const Engine& engine, mnemon::Drain& drain, const RpcOptions& options)
      : engine_(engine),
        drain_(drain),
        only_loopback_(options.admin == AdminPeers::kLoopback),
        grace_(options.grace) {}

  Unary* GetLoad(Context* context, const v1::GetLoadRequest*,
                 v1::Load* response) override {
    return Answer(context, [&]() -> absl::Status {
      MNEMON_RETURN_IF_ERROR(CheckPeer(*context));
      ToMessage(engine_.Stats(), *response);
      return absl::OkStatus();
    });
  }

  Unary* Drain(Context* context, const v1::DrainRequest* request,
               v1::DrainResponse*) override {
    milliseconds grace{};
    const absl::Status status = Guarded([&]() -> absl::Status {
      MNEMON_RETURN_IF_ERROR(CheckPeer(*context));
      MNEMON_ASSIGN_OR_RETURN(grace, GraceOf(*request, grace_));
      LogInfo(StrCat("drain, asked for by ", PeerText(context->peer()),
                     ": new work is refused, calls have ", grace.count(), " ms"));
      return absl::OkStatus();
    });
    if (!status.ok()) return Answer(context, [&] { return status; });
    return MakeReactor(context,
                       [&] { return new DrainReactor(drain_, context, grace); });
  }

 private:
  absl::Status CheckPeer(const Context& context) const {
    if (!only_loopback_ || IsLoopback(HostOf(PeerText(context.peer())))) {
      return absl::OkStatus();
    }
    return MakeError(absl::StatusCode::kPermissionDenied,
                     "the server takes calls of Admin from loopback alone (--admin)",
                     {.reason = "NOT_LOOPBACK"});
  }

  const Engine& engine_;
  mnemon::Drain& drain_;
  const bool only_loopback_;
  const milliseconds grace_;  // of a drain that does not say how long
};

}  // namespace

std::unique_ptr<grpc::Service> MakeAdminService(const Engine& engine, Drain& drain,
                                                const RpcOptions& options) {
  return std::make_unique<AdminService>(engine, drain, options);
}

}  // namespace mnemon
