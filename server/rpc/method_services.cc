// SPDX-License-Identifier: MIT
// Generation, Sessions and Models: each method begins its reactor.
#include "mnemon/v1/generation.grpc.pb.h"
#include "mnemon/v1/models.grpc.pb.h"
#include "mnemon/v1/sessions.grpc.pb.h"
#include "server/rpc/reactors.h"
#include "server/rpc/services.h"

namespace mnemon {
namespace {

using Context = grpc::CallbackServerContext;
using Unary = grpc::ServerUnaryReactor;

template <class Method>
Unary* Begin(const CallServices& parts, Context* context, const Method& method,
             const typename Method::Request* request,
             typename Method::Response* response) {
  return MakeReactor<UnaryReactor<Method>>(context, parts, context, method, *request,
                                           *response);
}

class GenerationService final : public v1::Generation::CallbackService {
 public:
  explicit GenerationService(const CallServices& parts) : parts_(parts) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      Context* context, const v1::GenerateRequest* request) override {
    return MakeReactor<ServerStreamReactor<v1::GenerateResponse>>(
        context, context, [&](auto& reactor) {
          return MakeGenerateHandler(parts_, *CallerOf(context), *request, reactor);
        });
  }
  grpc::ServerBidiReactor<v1::ConverseRequest, v1::ConverseResponse>* Converse(
      Context* context) override {
    return MakeReactor<BidiReactor<v1::ConverseRequest, v1::ConverseResponse>>(
        context, context, [&](auto& reactor) {
          return MakeConverseHandler(parts_, *CallerOf(context), reactor, reactor);
        });
  }
  grpc::ServerBidiReactor<v1::ScoreRequest, v1::ScoreResponse>* Score(
      Context* context) override {
    return MakeReactor<BidiReactor<v1::ScoreRequest, v1::ScoreResponse>>(
        context, context, [&](auto& reactor) {
          return MakeScoreHandler(parts_, *CallerOf(context), reactor, reactor);
        });
  }
  Unary* Tokenize(Context* context, const v1::TokenizeRequest* request,
                  v1::TokenizeResponse* response) override {
    return Begin(parts_, context, kTokenize, request, response);
  }
  Unary* Detokenize(Context* context, const v1::DetokenizeRequest* request,
                    v1::DetokenizeResponse* response) override {
    return Begin(parts_, context, kDetokenize, request, response);
  }
  Unary* Predict(Context* context, const v1::PredictRequest* request,
                 v1::PredictResponse* response) override {
    return Begin(parts_, context, kPredict, request, response);
  }

 private:
  const CallServices parts_;
};

class SessionsService final : public v1::Sessions::CallbackService {
 public:
  explicit SessionsService(const CallServices& parts) : parts_(parts) {}

  Unary* CreateSession(Context* context, const v1::CreateSessionRequest* request,
                       v1::Session* response) override {
    return Begin(parts_, context, kCreateSession, request, response);
  }
  Unary* GetSession(Context* context, const v1::GetSessionRequest* request,
                    v1::Session* response) override {
    return Begin(parts_, context, kGetSession, request, response);
  }
  Unary* GetSessionHistory(Context* context,
                           const v1::GetSessionHistoryRequest* request,
                           v1::SessionHistory* response) override {
    return Begin(parts_, context, kGetSessionHistory, request, response);
  }
  Unary* ListSessions(Context* context, const v1::ListSessionsRequest* request,
                      v1::ListSessionsResponse* response) override {
    return Begin(parts_, context, kListSessions, request, response);
  }
  Unary* UpdateSession(Context* context, const v1::UpdateSessionRequest* request,
                       v1::Session* response) override {
    return Begin(parts_, context, kUpdateSession, request, response);
  }
  Unary* DeleteSession(Context* context, const v1::DeleteSessionRequest* request,
                       google::protobuf::Empty* response) override {
    return Begin(parts_, context, kDeleteSession, request, response);
  }
  Unary* ForkSession(Context* context, const v1::ForkSessionRequest* request,
                     v1::Session* response) override {
    return Begin(parts_, context, kForkSession, request, response);
  }
  Unary* RewindSession(Context* context, const v1::RewindSessionRequest* request,
                       v1::Session* response) override {
    return Begin(parts_, context, kRewindSession, request, response);
  }
  Unary* CheckpointSession(Context* context,
                           const v1::CheckpointSessionRequest* request,
                           v1::Checkpoint* response) override {
    return Begin(parts_, context, kCheckpointSession, request, response);
  }
  Unary* VerifySession(Context* context, const v1::VerifySessionRequest* request,
                       v1::VerifySessionResponse* response) override {
    return Begin(parts_, context, kVerifySession, request, response);
  }
  grpc::ServerWriteReactor<v1::ExportSessionResponse>* ExportSession(
      Context* context, const v1::ExportSessionRequest* request) override {
    return MakeReactor<ServerStreamReactor<v1::ExportSessionResponse>>(
        context, context, [&](auto& reactor) {
          return MakeExportHandler(parts_, *CallerOf(context), *request, reactor);
        });
  }
  grpc::ServerReadReactor<v1::ImportSessionRequest>* ImportSession(
      Context* context, v1::Session* response) override {
    return MakeReactor<ClientStreamReactor<v1::ImportSessionRequest>>(
        context, context, [&](auto& reactor) {
          return MakeImportHandler(parts_, *CallerOf(context), reactor, *response,
                                   reactor);
        });
  }

 private:
  const CallServices parts_;
};

class ModelsService final : public v1::Models::CallbackService {
 public:
  explicit ModelsService(const CallServices& parts) : parts_(parts) {}

  Unary* ListModels(Context* context, const v1::ListModelsRequest* request,
                    v1::ListModelsResponse* response) override {
    return Begin(parts_, context, kListModels, request, response);
  }
  Unary* GetModel(Context* context, const v1::GetModelRequest* request,
                  v1::Model* response) override {
    return Begin(parts_, context, kGetModel, request, response);
  }

 private:
  const CallServices parts_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeGenerationService(const CallServices& parts) {
  return std::make_unique<GenerationService>(parts);
}

std::unique_ptr<grpc::Service> MakeSessionsService(const CallServices& parts) {
  return std::make_unique<SessionsService>(parts);
}

std::unique_ptr<grpc::Service> MakeModelsService(const CallServices& parts) {
  return std::make_unique<ModelsService>(parts);
}

}  // namespace mnemon
