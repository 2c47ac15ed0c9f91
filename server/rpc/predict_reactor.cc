// SPDX-License-Identifier: MIT
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "server/rpc/call_context.h"
#include "server/rpc/guard.h"
#include "server/rpc/messages.h"
#include "server/rpc/reactors.h"
#include "server/rpc/resource_name.h"

namespace mnemon {
namespace {

// Ends the prediction of a call early. Shared by the reactor and the list of open
// calls, which may stop the call at any time, also before the prediction is queued.
class PredictStop {
 public:
  // Once at most. Calls `cancel` now if Stop was called before.
  void SetCancel(std::function<void()> cancel) {
    {
      std::lock_guard lock(mutex_);
      cancel_ = std::move(cancel);
      if (!stopped_) return;
    }
    cancel_();
  }
  // The call ends with `status`, where one is given.
  void Stop(const std::optional<absl::Status>& status) {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
      if (!status_) status_ = status;
      if (!cancel_) return;
    }
    cancel_();
  }
  std::optional<absl::Status> status() const {
    std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  mutable std::mutex mutex_;
  std::function<void()> cancel_;        // set under mutex_, then constant
  bool stopped_ = false;                // guarded by mutex_
  std::optional<absl::Status> status_;  // guarded by mutex_
};

// Finished once: by the constructor, or by the callback of the engine. Until then gRPC
// keeps it alive; gRPC delivers no event before the constructor has returned.
class PredictReactor final : public grpc::ServerUnaryReactor {
 public:
  PredictReactor(const CallServices& shared, grpc::CallbackServerContext* context,
                 const v1::PredictRequest& request, v1::PredictResponse& response)
      : calls_(shared.calls),
        context_(context),
        call_(*CallOf(context)),
        scope_(ScopeOf(request)),
        response_(response),
        stop_(std::make_shared<PredictStop>()) {
    open_ =
        calls_.Add([stop = stop_](const absl::Status& status) { stop->Stop(status); },
                   CancelFunctionOf(*context), CallOf(context)->connection());
    const absl::Status status = Guarded([&] { return Begin(shared, request); });
    if (!status.ok()) End(status);
  }

  void OnCancel() override { stop_->Stop(std::nullopt); }

  void OnDone() override {
    calls_.Remove(open_);
    delete this;
  }

 private:
  absl::Status Begin(const CallServices& shared, const v1::PredictRequest& message) {
    RecordNames(call_, shared.engine, "",
                ParseOptionalModel(message.model(), "model").value_or(""));
    MNEMON_RETURN_IF_ERROR(shared.admission.Admit(*context_));
    MNEMON_ASSIGN_OR_RETURN(PredictRequest request, FromMessage(message));
    request.deadline = DeadlineOf(*context_);
    batch_ = request.batch;
    MNEMON_ASSIGN_OR_RETURN(const ModelFacts facts,
                            shared.engine.GetModel(request.model));
    call_.AddPromptTokens(static_cast<int64_t>(request.tokens.size()));
    vocab_ = facts.vocab;
    time_ = static_cast<int64_t>(request.tokens.size()) / batch_;
    MNEMON_ASSIGN_OR_RETURN(
        std::function<void()> cancel,
        shared.engine.Predict(std::move(request), [this](auto output) {
          End(Guarded([&]() -> absl::Status {
            MNEMON_RETURN_IF_ERROR(output.status());
            ToMessage(*output, {batch_, time_, vocab_}, response_);
            return absl::OkStatus();
          }));
        }));
    stop_->SetCancel(std::move(cancel));
    return absl::OkStatus();
  }

  void End(const absl::Status& status) {
    open_->AwaitTransport();
    if (absl::IsCancelled(status)) {
      Finish(ToGrpcStatus(stop_->status().value_or(EndOfCaller(*context_)), scope_,
                          context_));
    } else {
      Finish(ToGrpcStatus(status, scope_, context_));
    }
  }

  OpenCalls& calls_;
  grpc::CallbackServerContext* const context_;
  RpcCall& call_;
  const RequestScope scope_;
  v1::PredictResponse& response_;
  const std::shared_ptr<PredictStop> stop_;
  std::shared_ptr<OpenCall> open_;
  int64_t batch_ = 0;
  int64_t time_ = 0;
  int64_t vocab_ = 0;
};

}  // namespace

grpc::ServerUnaryReactor* StartPredict(const CallServices& shared,
                                       grpc::CallbackServerContext* context,
                                       const v1::PredictRequest* request,
                                       v1::PredictResponse* response) {
  return MakeReactor<PredictReactor>(context, shared, context, *request, *response);
}

}  // namespace mnemon
