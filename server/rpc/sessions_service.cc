// SPDX-License-Identifier: MIT
#include "base/status_macros.h"
#include "mnemon/v1/sessions.grpc.pb.h"
#include "server/rpc/guard.h"
#include "server/rpc/messages.h"
#include "server/rpc/not_available.h"
#include "server/rpc/resource_name.h"
#include "server/rpc/services.h"

namespace mnemon {
namespace {

using Context = grpc::CallbackServerContext;
using Unary = grpc::ServerUnaryReactor;

class SessionsService final : public v1::Sessions::CallbackService {
 public:
  SessionsService(Engine& engine, RateLimit& rate) : engine_(engine), rate_(rate) {}

  Unary* CreateSession(Context* context, const v1::CreateSessionRequest* request,
                       v1::Session* response) override {
    return Answer(context, ScopeOf(*request), [&]() -> absl::Status {
      MNEMON_RETURN_IF_ERROR(rate_.Admit());
      MNEMON_ASSIGN_OR_RETURN(CreateSessionRequest create, FromMessage(*request));
      MNEMON_ASSIGN_OR_RETURN(SessionFacts facts, engine_.CreateSession(create));
      ToMessage(facts, *response);
      return absl::OkStatus();
    });
  }

  Unary* GetSession(Context* context, const v1::GetSessionRequest* request,
                    v1::Session* response) override {
    return Answer(context, {.session = request->name()}, [&]() -> absl::Status {
      MNEMON_ASSIGN_OR_RETURN(std::string id,
                              ParseSessionResource(request->name(), "name"));
      MNEMON_ASSIGN_OR_RETURN(SessionFacts facts, engine_.GetSession(id));
      ToMessage(facts, *response);
      return absl::OkStatus();
    });
  }

  Unary* ListSessions(Context* context, const v1::ListSessionsRequest* request,
                      v1::ListSessionsResponse* response) override {
    return Answer(context, {}, [&]() -> absl::Status {
      if (!request->filter().empty()) return FieldNotAvailable("filter");
      if (!request->order_by().empty()) return FieldNotAvailable("order_by");
      MNEMON_ASSIGN_OR_RETURN(
          SessionPage page,
          engine_.ListSessions(request->page_size(), request->page_token()));
      for (const SessionFacts& facts : page.sessions) {
        ToMessage(facts, *response->add_sessions());
      }
      response->set_next_page_token(page.next_page_token);
      return absl::OkStatus();
    });
  }

  Unary* DeleteSession(Context* context, const v1::DeleteSessionRequest* request,
                       google::protobuf::Empty*) override {
    return Answer(context, {.session = request->name()}, [&]() -> absl::Status {
      if (!request->etag().empty()) return FieldNotAvailable("etag");
      MNEMON_ASSIGN_OR_RETURN(std::string id,
                              ParseSessionResource(request->name(), "name"));
      absl::Status status = engine_.DeleteSession(id);
      if (request->allow_missing() && absl::IsNotFound(status)) return absl::OkStatus();
      return status;
    });
  }

  Unary* UpdateSession(Context* context, const v1::UpdateSessionRequest*,
                       v1::Session*) override {
    return UnaryNotAvailable(context, "UpdateSession");
  }

  Unary* ForkSession(Context* context, const v1::ForkSessionRequest*,
                     v1::Session*) override {
    return UnaryNotAvailable(context, "ForkSession");
  }

  Unary* RewindSession(Context* context, const v1::RewindSessionRequest*,
                       v1::Session*) override {
    return UnaryNotAvailable(context, "RewindSession");
  }

  Unary* CheckpointSession(Context* context, const v1::CheckpointSessionRequest*,
                           v1::Checkpoint*) override {
    return UnaryNotAvailable(context, "CheckpointSession");
  }

  grpc::ServerWriteReactor<v1::ExportSessionResponse>* ExportSession(
      Context* context, const v1::ExportSessionRequest*) override {
    return StreamNotAvailable<grpc::ServerWriteReactor<v1::ExportSessionResponse>>(
        context, "ExportSession");
  }

  grpc::ServerReadReactor<v1::ImportSessionRequest>* ImportSession(
      Context* context, v1::Session*) override {
    return StreamNotAvailable<grpc::ServerReadReactor<v1::ImportSessionRequest>>(
        context, "ImportSession");
  }

  Unary* VerifySession(Context* context, const v1::VerifySessionRequest*,
                       v1::VerifySessionResponse*) override {
    return UnaryNotAvailable(context, "VerifySession");
  }

 private:
  Engine& engine_;
  RateLimit& rate_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeSessionsService(Engine& engine, RateLimit& rate) {
  return std::make_unique<SessionsService>(engine, rate);
}

}  // namespace mnemon
