// SPDX-License-Identifier: MIT
#include "server/rpc/predict_reactor.h"

#include <functional>
#include <utility>

#include "base/status_macros.h"
#include "server/rpc/guard.h"
#include "server/rpc/messages.h"

namespace mnemon {
namespace {

// Finished once: by the constructor, or by whoever ends the engine's work. Until then
// gRPC keeps it alive, and it keeps gRPC's events back until the constructor is done.
class PredictReactor final : public grpc::ServerUnaryReactor {
 public:
  PredictReactor(Engine& engine, grpc::CallbackServerContext* context,
                 const v1::PredictRequest& request, v1::PredictResponse& response)
      : context_(context), scope_(ScopeOf(request)), response_(response) {
    const absl::Status status = Guarded([&] { return Begin(engine, request); });
    if (!status.ok()) End(status);
  }

  // What runs already runs to its end.
  void OnCancel() override {
    if (cancel_) cancel_();
  }

  void OnDone() override { delete this; }

 private:
  absl::Status Begin(Engine& engine, const v1::PredictRequest& message) {
    MNEMON_ASSIGN_OR_RETURN(PredictRequest request, FromMessage(message));
    batch_ = request.batch;
    MNEMON_ASSIGN_OR_RETURN(const ModelFacts facts, engine.GetModel(request.model));
    vocab_ = facts.vocab;
    time_ = static_cast<int64_t>(request.tokens.size()) / batch_;
    MNEMON_ASSIGN_OR_RETURN(cancel_,
                            engine.Predict(std::move(request), [this](auto output) {
                              End(Guarded([&]() -> absl::Status {
                                MNEMON_RETURN_IF_ERROR(output.status());
                                ToMessage(*output, {batch_, time_, vocab_}, response_);
                                return absl::OkStatus();
                              }));
                            }));
    return absl::OkStatus();
  }

  void End(const absl::Status& status) {
    if (absl::IsCancelled(status)) {
      Finish(ToGrpcStatus(EndOfCaller(*context_), scope_, context_));
    } else {
      Finish(ToGrpcStatus(status, scope_, context_));
    }
  }

  grpc::CallbackServerContext* const context_;
  const RequestScope scope_;
  v1::PredictResponse& response_;
  int64_t batch_ = 0;
  int64_t time_ = 0;
  int64_t vocab_ = 0;
  std::function<void()> cancel_;
};

}  // namespace

grpc::ServerUnaryReactor* StartPredict(Engine& engine,
                                       grpc::CallbackServerContext* context,
                                       const v1::PredictRequest* request,
                                       v1::PredictResponse* response) {
  return new PredictReactor(engine, context, *request, *response);
}

}  // namespace mnemon
