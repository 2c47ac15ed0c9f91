// SPDX-License-Identifier: MIT
#include "base/status_macros.h"
#include "mnemon/v1/sessions.grpc.pb.h"
#include "server/rpc/call_context.h"
#include "server/rpc/guard.h"
#include "server/rpc/messages.h"
#include "server/rpc/reactors.h"
#include "server/rpc/resource_name.h"
#include "server/rpc/services.h"

namespace mnemon {
namespace {

using Context = grpc::CallbackServerContext;
using Unary = grpc::ServerUnaryReactor;

class SessionsService final : public v1::Sessions::CallbackService {
 public:
  explicit SessionsService(const CallServices& shared)
      : shared_(shared), engine_(shared.engine), admission_(shared.admission) {}

  Unary* CreateSession(Context* context, const v1::CreateSessionRequest* request,
                       v1::Session* response) override {
    return AnswerLater(
        context, ScopeOf(*request), shared_,
        [=, this](const auto& finish) -> absl::Status {
          MNEMON_RETURN_IF_ERROR(admission_.Admit(*context));
          MNEMON_ASSIGN_OR_RETURN(CreateSessionRequest create, FromMessage(*request));
          // The model by the request alone: a session of this id may be of another one.
          RecordNames(*CallOf(context), engine_, "", create.model);
          CallOf(context)->SetSession(create.id);
          return engine_.CreateSession(create, [=](absl::StatusOr<SessionFacts> made) {
            finish([&] {
              if (made.ok()) CallOf(context)->SetSession(made->id);
              return Put(made, *response);
            });
          });
        });
  }

  Unary* GetSession(Context* context, const v1::GetSessionRequest* request,
                    v1::Session* response) override {
    return AnswerApart(
        context, {.session = request->name()}, shared_.handlers,
        [=, this]() -> absl::Status {
          MNEMON_ASSIGN_OR_RETURN(std::string id,
                                  ParseSessionResource(request->name(), "name"));
          CallOf(context)->SetSession(id);
          MNEMON_ASSIGN_OR_RETURN(SessionFacts facts, engine_.GetSession(id));
          CallOf(context)->SetModel(facts.model);
          ToMessage(facts, *response);
          return absl::OkStatus();
        });
  }

  Unary* GetSessionHistory(Context* context,
                           const v1::GetSessionHistoryRequest* request,
                           v1::SessionHistory* response) override {
    return AnswerLater(
        context, {.session = request->name()}, shared_,
        [=, this](const auto& finish) -> absl::Status {
          MNEMON_ASSIGN_OR_RETURN(std::string id,
                                  ParseSessionResource(request->name(), "name"));
          RecordNames(*CallOf(context), engine_, id, "");
          ReadHistoryRequest read{.session = id, .tokens = request->token_count()};
          if (request->has_first_index()) read.first = request->first_index();
          response->set_name(request->name());
          return engine_.ReadHistory(read, [=](absl::StatusOr<HistoryPart> part) {
            finish([&] { return Put(part, *response); });
          });
        });
  }

  Unary* ListSessions(Context* context, const v1::ListSessionsRequest* request,
                      v1::ListSessionsResponse* response) override {
    return AnswerApart(context, {}, shared_.handlers, [=, this]() -> absl::Status {
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

  Unary* UpdateSession(Context* context, const v1::UpdateSessionRequest* request,
                       v1::Session* response) override {
    return AnswerLater(
        context, ScopeOf(*request), shared_,
        [=, this](const auto& finish) -> absl::Status {
          MNEMON_RETURN_IF_ERROR(admission_.Admit(*context));
          MNEMON_ASSIGN_OR_RETURN(UpdateSessionRequest update, FromMessage(*request));
          RecordNames(*CallOf(context), engine_, update.session, "");
          return engine_.UpdateSession(update, [=](absl::StatusOr<SessionFacts> made) {
            finish([&] { return Put(made, *response); });
          });
        });
  }

  Unary* DeleteSession(Context* context, const v1::DeleteSessionRequest* request,
                       google::protobuf::Empty*) override {
    return AnswerLater(
        context, {.session = request->name()}, shared_,
        [=, this](const auto& finish) -> absl::Status {
          MNEMON_ASSIGN_OR_RETURN(std::string id,
                                  ParseSessionResource(request->name(), "name"));
          RecordNames(*CallOf(context), engine_, id, "");
          const bool missing = request->allow_missing();
          const auto told = [missing](const absl::Status& status) {
            return missing && absl::IsNotFound(status) ? absl::OkStatus() : status;
          };
          const absl::Status begun = engine_.DeleteSession(
              id, request->etag(), [=](const absl::Status& status) {
                finish([&] { return told(status); });
              });
          if (begun.ok() || !told(begun).ok()) return begun;
          finish([] { return absl::OkStatus(); });
          return absl::OkStatus();
        });
  }

  Unary* ForkSession(Context* context, const v1::ForkSessionRequest* request,
                     v1::Session* response) override {
    return AnswerLater(
        context, ScopeOf(*request), shared_,
        [=, this](const auto& finish) -> absl::Status {
          MNEMON_RETURN_IF_ERROR(admission_.Admit(*context));
          MNEMON_ASSIGN_OR_RETURN(ForkSessionRequest fork, FromMessage(*request));
          RecordNames(*CallOf(context), engine_, fork.session, "");
          return engine_.ForkSession(fork, [=](absl::StatusOr<SessionFacts> made) {
            finish([&] { return Put(made, *response); });
          });
        });
  }

  Unary* RewindSession(Context* context, const v1::RewindSessionRequest* request,
                       v1::Session* response) override {
    return AnswerLater(
        context, {.session = request->name()}, shared_,
        [=, this](const auto& finish) -> absl::Status {
          MNEMON_RETURN_IF_ERROR(admission_.Admit(*context));
          MNEMON_ASSIGN_OR_RETURN(RewindSessionRequest rewind, FromMessage(*request));
          RecordNames(*CallOf(context), engine_, rewind.session, "");
          return engine_.RewindSession(rewind, [=](absl::StatusOr<SessionFacts> made) {
            finish([&] { return Put(made, *response); });
          });
        });
  }

  Unary* CheckpointSession(Context* context,
                           const v1::CheckpointSessionRequest* request,
                           v1::Checkpoint* response) override {
    return AnswerLater(
        context, {.session = request->name()}, shared_,
        [=, this](const auto& finish) -> absl::Status {
          MNEMON_RETURN_IF_ERROR(admission_.Admit(*context));
          CheckpointSessionRequest checkpoint{.id = request->checkpoint_id(),
                                              .request_id = request->request_id()};
          MNEMON_ASSIGN_OR_RETURN(checkpoint.session,
                                  ParseSessionResource(request->name(), "name"));
          RecordNames(*CallOf(context), engine_, checkpoint.session, "");
          return engine_.CheckpointSession(
              checkpoint, [=](absl::StatusOr<CheckpointFacts> made) {
                finish([&] { return Put(made, *response); });
              });
        });
  }

  grpc::ServerWriteReactor<v1::ExportSessionResponse>* ExportSession(
      Context* context, const v1::ExportSessionRequest* request) override {
    return StartExport(shared_, context, request);
  }

  grpc::ServerReadReactor<v1::ImportSessionRequest>* ImportSession(
      Context* context, v1::Session* response) override {
    return StartImport(shared_, context, response);
  }

  Unary* VerifySession(Context* context, const v1::VerifySessionRequest* request,
                       v1::VerifySessionResponse* response) override {
    return AnswerLater(
        context, {.session = request->name()}, shared_,
        [=, this](const auto& finish) -> absl::Status {
          MNEMON_RETURN_IF_ERROR(admission_.Admit(*context));
          VerifySessionRequest verify{.session = {}, .replay = request->replay()};
          MNEMON_ASSIGN_OR_RETURN(verify.session,
                                  ParseSessionResource(request->name(), "name"));
          RecordNames(*CallOf(context), engine_, verify.session, "");
          return engine_.VerifySession(
              verify, [=](absl::StatusOr<VerifiedSession> outcome) {
                finish([&] { return Put(outcome, *response); });
              });
        });
  }

 private:
  // What is not in the message when memory runs out is not there for the caller either.
  template <class Facts, class Message>
  static absl::Status Put(const absl::StatusOr<Facts>& facts, Message& out) {
    return Guarded([&]() -> absl::Status {
      MNEMON_RETURN_IF_ERROR(facts.status());
      ToMessage(*facts, out);
      return absl::OkStatus();
    });
  }

  const CallServices shared_;
  Engine& engine_;
  Admission& admission_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeSessionsService(const CallServices& shared) {
  return std::make_unique<SessionsService>(shared);
}

}  // namespace mnemon
