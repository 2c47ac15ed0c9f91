// SPDX-License-Identifier: MIT
#include "mnemon/v1/generation.grpc.pb.h"
#include "server/rpc/generate_reactor.h"
#include "server/rpc/not_available.h"
#include "server/rpc/services.h"

namespace mnemon {
namespace {

using Context = grpc::CallbackServerContext;

class GenerationService final : public v1::Generation::CallbackService {
 public:
  GenerationService(Engine& engine, OpenCalls& calls)
      : engine_(engine), calls_(calls) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      Context* context, const v1::GenerateRequest* request) override {
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
    return StreamNotAvailable<
        grpc::ServerBidiReactor<v1::ScoreRequest, v1::ScoreResponse>>(context, "Score");
  }

  grpc::ServerUnaryReactor* Tokenize(Context* context, const v1::TokenizeRequest*,
                                     v1::TokenizeResponse*) override {
    return UnaryNotAvailable(context, "Tokenize");
  }

  grpc::ServerUnaryReactor* Detokenize(Context* context, const v1::DetokenizeRequest*,
                                       v1::DetokenizeResponse*) override {
    return UnaryNotAvailable(context, "Detokenize");
  }

  grpc::ServerUnaryReactor* Predict(Context* context, const v1::PredictRequest*,
                                    v1::PredictResponse*) override {
    return UnaryNotAvailable(context, "Predict");
  }

 private:
  Engine& engine_;
  OpenCalls& calls_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeGenerationService(Engine& engine, OpenCalls& calls) {
  return std::make_unique<GenerationService>(engine, calls);
}

}  // namespace mnemon
