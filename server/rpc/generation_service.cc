// SPDX-License-Identifier: MIT
#include "base/status_macros.h"
#include "mnemon/v1/generation.grpc.pb.h"
#include "server/rpc/generate_reactor.h"
#include "server/rpc/guard.h"
#include "server/rpc/not_available.h"
#include "server/rpc/predict_reactor.h"
#include "server/rpc/resource_name.h"
#include "server/rpc/score_reactor.h"
#include "server/rpc/services.h"

namespace mnemon {
namespace {

using Context = grpc::CallbackServerContext;

class GenerationService final : public v1::Generation::CallbackService {
 public:
  GenerationService(Engine& engine, OpenCalls& calls, RateLimit& rate)
      : engine_(engine), calls_(calls), rate_(rate) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      Context* context, const v1::GenerateRequest* request) override {
    const absl::Status admitted = Admit(*context);
    if (!admitted.ok()) {
      NoteRefused(*request, admitted);
      return new EndedReactor<grpc::ServerWriteReactor<v1::GenerateResponse>>(
          ToGrpcStatus(admitted, {}, context));
    }
    return StartGenerate(engine_, calls_, context, request);
  }

  grpc::ServerBidiReactor<v1::ConverseRequest, v1::ConverseResponse>* Converse(
      Context* context) override {
    return StreamNotAvailable<
        grpc::ServerBidiReactor<v1::ConverseRequest, v1::ConverseResponse>>(context,
                                                                            "Converse");
  }

  grpc::ServerBidiReactor<v1::ScoreRequest, v1::ScoreResponse>* Score(
      Context* context) override {
    const absl::Status admitted = Admit(*context);
    if (!admitted.ok()) {
      return new EndedReactor<
          grpc::ServerBidiReactor<v1::ScoreRequest, v1::ScoreResponse>>(
          ToGrpcStatus(admitted, {}, context));
    }
    return StartScore(engine_, calls_, context);
  }

  grpc::ServerUnaryReactor* Tokenize(Context* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override {
    return Answer(context, {.model = request->model()}, [&]() -> absl::Status {
      MNEMON_RETURN_IF_ERROR(Admit(*context));
      MNEMON_ASSIGN_OR_RETURN(std::string model,
                              ParseOptionalModel(request->model(), "model"));
      MNEMON_ASSIGN_OR_RETURN(TokenizedText text,
                              engine_.Tokenize(model, request->text()));
      response->mutable_tokens()->Add(text.tokens.begin(), text.tokens.end());
      response->mutable_byte_offsets()->Add(text.byte_offsets.begin(),
                                            text.byte_offsets.end());
      return absl::OkStatus();
    });
  }

  grpc::ServerUnaryReactor* Detokenize(Context* context,
                                       const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override {
    return Answer(context, {.model = request->model()}, [&]() -> absl::Status {
      MNEMON_RETURN_IF_ERROR(Admit(*context));
      MNEMON_ASSIGN_OR_RETURN(std::string model,
                              ParseOptionalModel(request->model(), "model"));
      MNEMON_ASSIGN_OR_RETURN(DetokenizedText text,
                              engine_.Detokenize(model, {request->tokens().begin(),
                                                         request->tokens().end()}));
      response->set_raw(std::move(text.raw));
      response->set_text(std::move(text.text));
      return absl::OkStatus();
    });
  }

  grpc::ServerUnaryReactor* Predict(Context* context, const v1::PredictRequest* request,
                                    v1::PredictResponse* response) override {
    const absl::Status admitted = Admit(*context);
    if (!admitted.ok()) return Answer(context, {}, [&] { return admitted; });
    return StartPredict(engine_, context, request, response);
  }

 private:
  // Before any work is done for a call.
  absl::Status Admit(const Context& context) {
    if (context.deadline() <= std::chrono::system_clock::now()) {
      return EndOfCaller(context);
    }
    return rate_.Admit();
  }

  // Of the request only the names are looked at: refusing must stay cheap.
  void NoteRefused(const v1::GenerateRequest& message, const absl::Status& status) {
    Guarded([&]() -> absl::Status {
      GenerateRequest request;
      request.model = ParseOptionalModel(message.model(), "model").value_or("");
      request.session = ParseOptionalSession(message.session(), "session").value_or("");
      engine_.NoteRefused(request, status);
      return absl::OkStatus();
    }).IgnoreError();
  }

  Engine& engine_;
  OpenCalls& calls_;
  RateLimit& rate_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeGenerationService(Engine& engine, OpenCalls& calls,
                                                     RateLimit& rate) {
  return std::make_unique<GenerationService>(engine, calls, rate);
}

}  // namespace mnemon
