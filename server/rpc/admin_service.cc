// SPDX-License-Identifier: MIT
#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "mnemon/v1/admin.grpc.pb.h"
#include "server/rpc/admission.h"
#include "server/rpc/call_context.h"
#include "server/rpc/drain.h"
#include "server/rpc/guard.h"
#include "server/rpc/messages.h"
#include "server/rpc/services.h"
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

// Finished once: by the drain, or by its caller's end, whichever comes first. It is no
// open call, for which the drain would wait.
class DrainReactor final : public Unary {
 public:
  DrainReactor(Drain& drain, Context* context, milliseconds grace)
      : drain_(drain),
        context_(context),
        id_(drain.Join(grace, [this] { Finish(grpc::Status::OK); })) {}

  void OnCancel() override {
    if (drain_.Leave(id_)) Finish(ToGrpcStatus(EndOfCaller(*context_), {}, context_));
  }

  void OnDone() override { delete this; }

 private:
  Drain& drain_;
  Context* const context_;
  const uint64_t id_;
};

class AdminService final : public v1::Admin::CallbackService {
 public:
  AdminService(const Engine& engine, mnemon::Drain& drain, const AdminOptions& options)
      : engine_(engine), drain_(drain), options_(options) {}

  Unary* GetLoad(Context* context, const v1::GetLoadRequest*,
                 v1::Load* response) override {
    return Answer(context, {}, [&]() -> absl::Status {
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
      MNEMON_ASSIGN_OR_RETURN(grace, GraceOf(*request, options_.grace));
      LogInfo(StrCat("drain, asked for by ", PeerText(context->peer()),
                     ": new work is refused, calls have ", grace.count(), " ms"));
      return absl::OkStatus();
    });
    if (!status.ok()) return Answer(context, {}, [&] { return status; });
    return MakeReactor<DrainReactor>(context, drain_, context, grace);
  }

 private:
  absl::Status CheckPeer(const Context& context) const {
    if (!options_.only_loopback) return absl::OkStatus();
    if (IsLoopback(HostOf(PeerText(context.peer())))) return absl::OkStatus();
    return MakeError(absl::StatusCode::kPermissionDenied,
                     "the server takes calls of Admin from loopback alone (--admin)",
                     {.reason = "NOT_LOOPBACK"});
  }

  const Engine& engine_;
  mnemon::Drain& drain_;
  const AdminOptions options_;
};

}  // namespace

void ToMessage(const EngineStats& stats, v1::Load& out) {
  int64_t queue_capacity = 0, session_capacity = 0, state_capacity_bytes = 0;
  std::chrono::duration<double> wait{};
  for (const ModelStats& model : stats.models) {
    queue_capacity += model.max_waiting;
    session_capacity += model.session_capacity;
    state_capacity_bytes += model.state_capacity_bytes;
    wait = std::max(wait, model.wait);
  }
  out.set_running_call_count(stats.running);
  out.set_queued_call_count(stats.queued);
  out.set_queue_capacity(queue_capacity);
  out.set_session_count(stats.sessions);
  out.set_session_capacity(session_capacity);
  out.set_state_size_bytes(stats.state_bytes);
  out.set_state_capacity_bytes(state_capacity_bytes);
  // An estimate, of which a year is as much as for ever.
  const std::chrono::duration<double> most = std::chrono::hours(24 * 365);
  SetDuration(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::min(wait, most)),
      *out.mutable_queue_duration());
  out.set_computed_token_count(stats.tokens_computed);
  out.set_generated_token_count(stats.tokens_generated);
  out.set_draining(stats.draining);
}

std::unique_ptr<grpc::Service> MakeAdminService(const Engine& engine, Drain& drain,
                                                const AdminOptions& options) {
  return std::make_unique<AdminService>(engine, drain, options);
}

}  // namespace mnemon
