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

// What the services have in common. `Base`: a generated service.
template <class Base>
class MethodService : public Base {
 public:
  explicit MethodService(const CallServices& parts) : parts_(parts) {}

 protected:
  template <class Method>
  Unary* Begin(Context* context, const Method& method,
               const typename Method::Request* request,
               typename Method::Response* response) {
    return MakeReactor(context, [&] {
      return new UnaryReactor<Method>(parts_, context, method, *request, *response);
    });
  }
  // Begins a streaming call; `make` gets its reactor and returns its handler.
  template <class Reactor, class Make>
  Reactor* BeginStream(Context* context, const Make& make) {
    return MakeReactor(context, [&] {
      auto reactor = std::make_unique<Reactor>(context);
      reactor->Begin(make(*reactor));
      return reactor.release();
    });
  }

  const CallServices parts_;
};

class GenerationService final : public MethodService<v1::Generation::CallbackService> {
 public:
  using MethodService::MethodService;

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      Context* context, const v1::GenerateRequest* request) override {
    return BeginStream<ServerStreamReactor<v1::GenerateResponse>>(
        context, [&](auto& reactor) {
          return MakeGenerateHandler(parts_, *CallerOf(context), *request, reactor);
        });
  }
  grpc::ServerBidiReactor<v1::ConverseRequest, v1::ConverseResponse>* Converse(
      Context* context) override {
    return BeginStream<BidiReactor<v1::ConverseRequest, v1::ConverseResponse>>(
        context, [&](auto& reactor) {
          return MakeConverseHandler(parts_, *CallerOf(context), reactor, reactor);
        });
  }
  grpc::ServerBidiReactor<v1::ScoreRequest, v1::ScoreResponse>* Score(
      Context* context) override {
    return BeginStream<BidiReactor<v1::ScoreRequest, v1::ScoreResponse>>(
        context, [&](auto& reactor) {
          return MakeScoreHandler(parts_, *CallerOf(context), reactor, reactor);
        });
  }
  Unary* Tokenize(Context* context, const v1::TokenizeRequest* request,
                  v1::TokenizeResponse* response) override {
    return Begin(context, kTokenize, request, response);
  }
  Unary* Detokenize(Context* context, const v1::DetokenizeRequest* request,
                    v1::DetokenizeResponse* response) override {
    return Begin(context, kDetokenize, request, response);
  }
  Unary* Predict(Context* context, const v1::PredictRequest* request,
                 v1::PredictResponse* response) override {
    return Begin(context, kPredict, request, response);
  }
};

class SessionsService final : public MethodService<v1::Sessions::CallbackService> {
 public:
  using MethodService::MethodService;

  Unary* CreateSession(Context* context, const v1::CreateSessionRequest* request,
                       v1::Session* response) override {
    return Begin(context, kCreateSession, request, response);
  }
  Unary* GetSession(Context* context, const v1::GetSessionRequest* request,
                    v1::Session* response) override {
    return Begin(context, kGetSession, request, response);
  }
  Unary* GetSessionHistory(Context* context,
                           const v1::GetSessionHistoryRequest* request,
                           v1::SessionHistory* response) override {
    return Begin(context, kGetSessionHistory, request, response);
  }
  Unary* ListSessions(Context* context, const v1::ListSessionsRequest* request,
                      v1::ListSessionsResponse* response) override {
    return Begin(context, kListSessions, request, response);
  }
  Unary* UpdateSession(Context* context, const v1::UpdateSessionRequest* request,
                       v1::Session* response) override {
    return Begin(context, kUpdateSession, request, response);
  }
  Unary* DeleteSession(Context* context, const v1::DeleteSessionRequest* request,
                       google::protobuf::Empty* response) override {
    return Begin(context, kDeleteSession, request, response);
  }
  Unary* ForkSession(Context* context, const v1::ForkSessionRequest* request,
                     v1::Session* response) override {
    return Begin(context, kForkSession, request, response);
  }
  Unary* RewindSession(Context* context, const v1::RewindSessionRequest* request,
                       v1::Session* response) override {
    return Begin(context, kRewindSession, request, response);
  }
  Unary* CheckpointSession(Context* context,
                           const v1::CheckpointSessionRequest* request,
                           v1::Checkpoint* response) override {
    return Begin(context, kCheckpointSession, request, response);
  }
  Unary* VerifySession(Context* context, const v1::VerifySessionRequest* request,
                       v1::VerifySessionResponse* response) override {
    return Begin(context, kVerifySession, request, response);
  }
  grpc::ServerWriteReactor<v1::ExportSessionResponse>* ExportSession(
      Context* context, const v1::ExportSessionRequest* request) override {
    return BeginStream<ServerStreamReactor<v1::ExportSessionResponse>>(
        context, [&](auto& reactor) {
          return MakeExportHandler(parts_, *CallerOf(context), *request, reactor);
        });
  }
  grpc::ServerReadReactor<v1::ImportSessionRequest>* ImportSession(
      Context* context, v1::Session* response) override {
    return BeginStream<ClientStreamReactor<v1::ImportSessionRequest>>(
        context, [&](auto& reactor) {
          return MakeImportHandler(parts_, *CallerOf(context), reactor, *response,
                                   reactor);
        });
  }
};

class ModelsService final : public MethodService<v1::Models::CallbackService> {
 public:
  using MethodService::MethodService;

  Unary* ListModels(Context* context, const v1::ListModelsRequest* request,
                    v1::ListModelsResponse* response) override {
    return Begin(context, kListModels, request, response);
  }
  Unary* GetModel(Context* context, const v1::GetModelRequest* request,
                  v1::Model* response) override {
    return Begin(context, kGetModel, request, response);
  }
};

}  // namespace

std::vector<std::unique_ptr<grpc::Service>> MakeMethodServices(
    const CallServices& parts) {
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(std::make_unique<GenerationService>(parts));
  services.push_back(std::make_unique<ModelsService>(parts));
  services.push_back(std::make_unique<SessionsService>(parts));
  return services;
}

}  // namespace mnemon
