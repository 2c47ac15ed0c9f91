// SPDX-License-Identifier: MIT
#include "base/status_macros.h"
#include "mnemon/v1/generation.grpc.pb.h"
#include "server/rpc/call_context.h"
#include "server/rpc/guard.h"
#include "server/rpc/reactors.h"
#include "server/rpc/resource_name.h"
#include "server/rpc/services.h"

namespace mnemon {
namespace {

using Context = grpc::CallbackServerContext;

class GenerationService final : public v1::Generation::CallbackService {
 public:
  explicit GenerationService(const CallServices& shared) : shared_(shared) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      Context* context, const v1::GenerateRequest* request) override {
    return StartGenerate(shared_, context, request);
  }

  grpc::ServerBidiReactor<v1::ConverseRequest, v1::ConverseResponse>* Converse(
      Context* context) override {
    return StartConverse(shared_, context);
  }

  grpc::ServerBidiReactor<v1::ScoreRequest, v1::ScoreResponse>* Score(
      Context* context) override {
    return StartScore(shared_, context);
  }

  grpc::ServerUnaryReactor* Tokenize(Context* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override {
    return Answer(context, {.model = request->model()}, [&]() -> absl::Status {
      const auto model = ParseOptionalModel(request->model(), "model");
      RecordNames(*CallOf(context), shared_.engine, "", model.value_or(""));
      MNEMON_RETURN_IF_ERROR(shared_.admission.Admit(*context));
      MNEMON_RETURN_IF_ERROR(model.status());
      MNEMON_ASSIGN_OR_RETURN(TokenizedText text,
                              shared_.engine.Tokenize(*model, request->text()));
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
      const auto model = ParseOptionalModel(request->model(), "model");
      RecordNames(*CallOf(context), shared_.engine, "", model.value_or(""));
      MNEMON_RETURN_IF_ERROR(shared_.admission.Admit(*context));
      MNEMON_RETURN_IF_ERROR(model.status());
      MNEMON_ASSIGN_OR_RETURN(
          DetokenizedText text,
          shared_.engine.Detokenize(
              *model, {request->tokens().begin(), request->tokens().end()}));
      response->set_raw(std::move(text.raw));
      response->set_text(std::move(text.text));
      return absl::OkStatus();
    });
  }

  grpc::ServerUnaryReactor* Predict(Context* context, const v1::PredictRequest* request,
                                    v1::PredictResponse* response) override {
    return StartPredict(shared_, context, request, response);
  }

 private:
  const CallServices shared_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeGenerationService(const CallServices& shared) {
  return std::make_unique<GenerationService>(shared);
}

}  // namespace mnemon
