// SPDX-License-Identifier: MIT
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "server/service/guard.h"
#include "server/service/messages/messages.h"
#include "server/service/messages/resource_name.h"
#include "server/service/unary_methods.h"

namespace mnemon {
namespace {

// Ends the prediction of a call early. Shared by the handler and the list of open
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

// Answered once: by Start, or by the callback of the engine. The caller holds it.
class PredictHandler final : public CallEvents {
 public:
  PredictHandler(const CallServices& services, UnaryCaller& caller,
                 const v1::PredictRequest& request, v1::PredictResponse& response)
      : services_(services),
        caller_(caller),
        request_(request),
        scope_(ScopeOf(request)),
        response_(response),
        stop_(std::make_shared<PredictStop>()) {}

  void Start() {
    open_ = services_.calls.Add(
        [stop = stop_](const absl::Status& status) { stop->Stop(status); },
        caller_.CancelFunction(), caller_.connection());
    const absl::Status status = Guarded([&] { return Begin(); });
    if (!status.ok()) End(status);
  }

  void OnGone() override { stop_->Stop(std::nullopt); }
  void OnDone() override { services_.calls.Remove(open_); }

 private:
  absl::Status Begin() {
    RecordNames(caller_.progress(), services_.engine, "",
                ParseOptionalModel(request_.model(), "model").value_or(""));
    MNEMON_RETURN_IF_ERROR(services_.admission.Admit(caller_));
    MNEMON_ASSIGN_OR_RETURN(PredictRequest request, FromMessage(request_));
    request.deadline = caller_.deadline();
    batch_ = request.batch;
    MNEMON_ASSIGN_OR_RETURN(const ModelFacts facts,
                            services_.engine.GetModel(request.model));
    caller_.progress().AddPromptTokens(static_cast<int64_t>(request.tokens.size()));
    vocab_ = facts.vocab;
    time_ = static_cast<int64_t>(request.tokens.size()) / batch_;
    MNEMON_ASSIGN_OR_RETURN(
        std::function<void()> cancel,
        services_.engine.Predict(std::move(request), [this](auto output) {
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
      caller_.Answer(stop_->status().value_or(EndOfCaller(caller_)), scope_);
    } else {
      caller_.Answer(status, scope_);
    }
  }

  const CallServices services_;
  UnaryCaller& caller_;
  const v1::PredictRequest& request_;
  const RequestScope scope_;
  v1::PredictResponse& response_;
  const std::shared_ptr<PredictStop> stop_;
  std::shared_ptr<OpenCall> open_;
  int64_t batch_ = 0;
  int64_t time_ = 0;
  int64_t vocab_ = 0;
};

void Predict(const CallServices& services, UnaryCaller& caller,
             const v1::PredictRequest& request, v1::PredictResponse& response) {
  const auto handler =
      std::make_shared<PredictHandler>(services, caller, request, response);
  caller.Watch(handler);
  handler->Start();
}

}  // namespace

const UnaryMethod<v1::PredictRequest, v1::PredictResponse> kPredict = {
    "mnemon.v1.Generation/Predict", &Predict};

}  // namespace mnemon
