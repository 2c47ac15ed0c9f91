// SPDX-License-Identifier: MIT
#include <string>

#include "base/status_macros.h"
#include "server/service/answer.h"
#include "server/service/messages/messages.h"
#include "server/service/methods.h"

namespace mnemon {
namespace {

template <class Facts, class Message>
absl::Status Put(const absl::StatusOr<Facts>& facts, Message& out) {
  MNEMON_RETURN_IF_ERROR(facts.status());
  ToMessage(*facts, out);
  return absl::OkStatus();
}

// A method that the engine carries out on one session, and answers later.
template <class Wanted, class Facts,
          absl::Status (Engine::*kEngineMethod)(const Wanted&, OnAnswer<Facts>),
          class Request, class Response>
void OnSession(const CallServices& services, UnaryCaller& caller,
               const Request& request, Response& response) {
  AnswerLater(caller, ScopeOf(request), services,
              [=, &caller, &request, &response](const auto& finish) -> absl::Status {
                MNEMON_RETURN_IF_ERROR(services.admission.Admit(caller));
                MNEMON_ASSIGN_OR_RETURN(const Wanted wanted, FromMessage(request));
                services.RecordNames(caller, wanted.session, "");
                return (services.engine.*kEngineMethod)(
                    wanted, [=, &response](const absl::StatusOr<Facts>& outcome) {
                      finish([&] { return Put(outcome, response); });
                    });
              });
}

void CreateSession(const CallServices& services, UnaryCaller& caller,
                   const v1::CreateSessionRequest& request, v1::Session& response) {
  AnswerLater(caller, ScopeOf(request), services,
              [=, &caller, &request, &response](const auto& finish) -> absl::Status {
                MNEMON_RETURN_IF_ERROR(services.admission.Admit(caller));
                MNEMON_ASSIGN_OR_RETURN(CreateSessionRequest create,
                                        FromMessage(request));
                // The model by the request alone: a session of this id may be of
                // another one.
                services.RecordNames(caller, "", create.model);
                caller.progress().SetSession(create.id);
                return services.engine.CreateSession(
                    create, [=, &caller, &response](absl::StatusOr<SessionFacts> made) {
                      finish([&] {
                        if (made.ok()) caller.progress().SetSession(made->id);
                        return Put(made, response);
                      });
                    });
              });
}

void GetSession(const CallServices& services, UnaryCaller& caller,
                const v1::GetSessionRequest& request, v1::Session& response) {
  AnswerApart(caller, ScopeOf(request), services.handlers,
              [=, &caller, &request, &response]() -> absl::Status {
                MNEMON_ASSIGN_OR_RETURN(std::string id,
                                        ParseSessionResource(request.name(), "name"));
                caller.progress().SetSession(id);
                MNEMON_ASSIGN_OR_RETURN(SessionFacts facts,
                                        services.engine.GetSession(id));
                caller.progress().SetModel(facts.model);
                ToMessage(facts, response);
                return absl::OkStatus();
              });
}

void GetSessionHistory(const CallServices& services, UnaryCaller& caller,
                       const v1::GetSessionHistoryRequest& request,
                       v1::SessionHistory& response) {
  AnswerLater(caller, ScopeOf(request), services,
              [=, &caller, &request, &response](const auto& finish) -> absl::Status {
                MNEMON_ASSIGN_OR_RETURN(std::string id,
                                        ParseSessionResource(request.name(), "name"));
                services.RecordNames(caller, id, "");
                ReadHistoryRequest read{.session = id, .tokens = request.token_count()};
                if (request.has_first_index()) read.first = request.first_index();
                response.set_name(request.name());
                return services.engine.ReadHistory(
                    read, [=, &response](absl::StatusOr<HistoryPart> part) {
                      finish([&] { return Put(part, response); });
                    });
              });
}

void ListSessions(const CallServices& services, UnaryCaller& caller,
                  const v1::ListSessionsRequest& request,
                  v1::ListSessionsResponse& response) {
  AnswerApart(caller, {}, services.handlers,
              [=, &caller, &request, &response]() -> absl::Status {
                MNEMON_ASSIGN_OR_RETURN(SessionPage page, services.engine.ListSessions(
                                                              FromMessage(request)));
                ReserveMore(page.sessions.size(), *response.mutable_sessions());
                for (const SessionFacts& facts : page.sessions) {
                  ToMessage(facts, *response.add_sessions());
                }
                response.set_next_page_token(page.next_page_token);
                return absl::OkStatus();
              });
}

void DeleteSession(const CallServices& services, UnaryCaller& caller,
                   const v1::DeleteSessionRequest& request, google::protobuf::Empty&) {
  AnswerLater(
      caller, ScopeOf(request), services,
      [=, &caller, &request](const auto& finish) -> absl::Status {
        MNEMON_ASSIGN_OR_RETURN(std::string id,
                                ParseSessionResource(request.name(), "name"));
        services.RecordNames(caller, id, "");
        const bool missing = request.allow_missing();
        const auto told = [missing](const absl::Status& status) {
          return missing && absl::IsNotFound(status) ? absl::OkStatus() : status;
        };
        const absl::Status begun = services.engine.DeleteSession(
            id, request.etag(),
            [=](const absl::Status& status) { finish([&] { return told(status); }); });
        if (begun.ok() || !told(begun).ok()) return begun;
        finish([] { return absl::OkStatus(); });
        return absl::OkStatus();
      });
}

}  // namespace

const UnaryMethod<v1::CreateSessionRequest, v1::Session> kCreateSession = {
    "mnemon.v1.Sessions/CreateSession", &CreateSession};
const UnaryMethod<v1::GetSessionRequest, v1::Session> kGetSession = {
    "mnemon.v1.Sessions/GetSession", &GetSession};
const UnaryMethod<v1::GetSessionHistoryRequest, v1::SessionHistory> kGetSessionHistory =
    {"mnemon.v1.Sessions/GetSessionHistory", &GetSessionHistory};
const UnaryMethod<v1::ListSessionsRequest, v1::ListSessionsResponse> kListSessions = {
    "mnemon.v1.Sessions/ListSessions", &ListSessions};
const UnaryMethod<v1::UpdateSessionRequest, v1::Session> kUpdateSession = {
    "mnemon.v1.Sessions/UpdateSession",
    &OnSession<UpdateSessionRequest, SessionFacts, &Engine::UpdateSession>};
const UnaryMethod<v1::DeleteSessionRequest, google::protobuf::Empty> kDeleteSession = {
    "mnemon.v1.Sessions/DeleteSession", &DeleteSession};
const UnaryMethod<v1::ForkSessionRequest, v1::Session> kForkSession = {
    "mnemon.v1.Sessions/ForkSession",
    &OnSession<ForkSessionRequest, SessionFacts, &Engine::ForkSession>};
const UnaryMethod<v1::RewindSessionRequest, v1::Session> kRewindSession = {
    "mnemon.v1.Sessions/RewindSession",
    &OnSession<RewindSessionRequest, SessionFacts, &Engine::RewindSession>};
const UnaryMethod<v1::CheckpointSessionRequest, v1::Checkpoint> kCheckpointSession = {
    "mnemon.v1.Sessions/CheckpointSession",
    &OnSession<CheckpointSessionRequest, CheckpointFacts, &Engine::CheckpointSession>};
const UnaryMethod<v1::VerifySessionRequest, v1::VerifySessionResponse> kVerifySession =
    {"mnemon.v1.Sessions/VerifySession",
     &OnSession<VerifySessionRequest, VerifiedSession, &Engine::VerifySession>};

}  // namespace mnemon
