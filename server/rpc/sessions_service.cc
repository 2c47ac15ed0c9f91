// SPDX-License-Identifier: MIT
#include "base/status_macros.h"
#include "mnemon/v1/sessions.grpc.pb.h"
#include "server/rpc/call_context.h"
#include "server/rpc/guard.h"
#include "server/rpc/messages.h"
#include "server/rpc/resource_name.h"
#include "server/rpc/services.h"

namespace mnemon {
namespace {

using Context = grpc::CallbackServerContext;
using Unary = grpc::ServerUnaryReactor;

class SessionsService final : public v1::Sessions::CallbackService {
 public:
  explicit SessionsService(const CallServices& shared)
      : engine_(shared.engine), admission_(shared.admission) {}

  Unary* CreateSession(Context* context, const v1::CreateSessionRequest* request,
                       v1::Session* response) override {
    return Answer(context, ScopeOf(*request), [&]() -> absl::Status {
      MNEMON_RETURN_IF_ERROR(admission_.Admit(*context));
      MNEMON_ASSIGN_OR_RETURN(CreateSessionRequest create, FromMessage(*request));
      // The model by the request alone: a session of this id may be of another one.
      RecordNames(*CallOf(context), engine_, "", create.model);
      CallOf(context)->SetSession(create.id);
      MNEMON_ASSIGN_OR_RETURN(SessionFacts facts, engine_.CreateSession(create));
      CallOf(context)->SetSession(facts.id);
      ToMessage(facts, *response);
      return absl::OkStatus();
    });
  }

  Unary* GetSession(Context* context, const v1::GetSessionRequest* request,
                    v1::Session* response) override {
    return Answer(context, {.session = request->name()}, [&]() -> absl::Status {
      MNEMON_ASSIGN_OR_RETURN(std::string id,
                              ParseSessionResource(request->name(), "name"));
      CallOf(context)->SetSession(id);
      MNEMON_ASSIGN_OR_RETURN(SessionFacts facts, engine_.GetSession(id));
      CallOf(context)->SetModel(facts.model);
      ToMessage(facts, *response);
      return absl::OkStatus();
    });
  }

  Unary* ListSessions(Context* context, const v1::ListSessionsRequest* request,
                      v1::ListSessionsResponse* response) override {
    return Answer(context, {}, [&]() -> absl::Status {
      MNEMON_ASSIGN_OR_RETURN(SessionPage page,
                              engine_.ListSessions(FromMessage(*request)));
      ReserveMore(page.sessions.size(), *response->mutable_sessions());
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
      RecordNames(*CallOf(context), engine_, id, "");
      absl::Status status = engine_.DeleteSession(id);
      if (request->allow_missing() && absl::IsNotFound(status)) return absl::OkStatus();
      return status;
    });
  }

 private:
  Engine& engine_;
  Admission& admission_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeSessionsService(const CallServices& shared) {
  return std::make_unique<SessionsService>(shared);
}

}  // namespace mnemon
