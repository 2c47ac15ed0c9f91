// SPDX-License-Identifier: MIT
#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/status_macros.h"
#include "server/service/answer.h"
#include "server/service/messages/messages.h"
#include "server/service/methods.h"

namespace mnemon {
namespace {

// A page token is the name of the last model of the page before.
absl::Status PageOf(const std::vector<ModelFacts>& models,
                    const v1::ListModelsRequest& request,
                    v1::ListModelsResponse& response) {
  if (request.page_size() < 0) {
    return InvalidField("page_size", "page_size must not be negative");
  }
  size_t begin = 0;
  if (!request.page_token().empty()) {
    while (begin < models.size() && models[begin].name != request.page_token()) ++begin;
    if (begin == models.size()) {
      return InvalidField("page_token", "page_token is not one this server gave");
    }
    ++begin;
  }
  const size_t room = request.page_size() == 0
                          ? models.size()
                          : static_cast<size_t>(request.page_size());
  const size_t end = std::min(models.size(), begin + room);
  ReserveMore(end - begin, *response.mutable_models());
  for (size_t i = begin; i < end; ++i) ToMessage(models[i], *response.add_models());
  if (end < models.size()) response.set_next_page_token(models[end - 1].name);
  return absl::OkStatus();
}

void ListModels(const CallServices& services, UnaryCaller& caller,
                const v1::ListModelsRequest& request,
                v1::ListModelsResponse& response) {
  caller.Answer(
      Guarded([&] { return PageOf(services.engine.ListModels(), request, response); }),
      {});
}

void GetModel(const CallServices& services, UnaryCaller& caller,
              const v1::GetModelRequest& request, v1::Model& response) {
  AnswerNow(caller, {.model = request.name()}, [&]() -> absl::Status {
    MNEMON_ASSIGN_OR_RETURN(const std::string name,
                            ParseModelResource(request.name(), "name"));
    caller.progress().SetModel(name);
    MNEMON_ASSIGN_OR_RETURN(const ModelFacts facts, services.engine.GetModel(name));
    ToMessage(facts, response);
    return absl::OkStatus();
  });
}

// Answers with what `body` returns for the name of the model that `request` names,
// which may be empty.
template <class Request, class Body>
void AnswerForModel(const CallServices& services, UnaryCaller& caller,
                    const Request& request, const Body& body) {
  AnswerNow(caller, {.model = request.model()}, [&]() -> absl::Status {
    const auto model = ParseOptionalModel(request.model(), "model");
    services.RecordNames(caller, "", model.value_or(""));
    MNEMON_RETURN_IF_ERROR(services.admission.Admit(caller));
    MNEMON_RETURN_IF_ERROR(model.status());
    return body(*model);
  });
}

void Tokenize(const CallServices& services, UnaryCaller& caller,
              const v1::TokenizeRequest& request, v1::TokenizeResponse& response) {
  AnswerForModel(
      services, caller, request, [&](const std::string& model) -> absl::Status {
        MNEMON_ASSIGN_OR_RETURN(TokenizedText text,
                                services.engine.Tokenize(model, request.text()));
        response.mutable_tokens()->Add(text.tokens.begin(), text.tokens.end());
        response.mutable_byte_offsets()->Add(text.byte_offsets.begin(),
                                             text.byte_offsets.end());
        return absl::OkStatus();
      });
}

void Detokenize(const CallServices& services, UnaryCaller& caller,
                const v1::DetokenizeRequest& request,
                v1::DetokenizeResponse& response) {
  AnswerForModel(services, caller, request,
                 [&](const std::string& model) -> absl::Status {
                   MNEMON_ASSIGN_OR_RETURN(
                       DetokenizedText text,
                       services.engine.Detokenize(
                           model, {request.tokens().begin(), request.tokens().end()}));
                   response.set_raw(std::move(text.raw));
                   response.set_text(std::move(text.text));
                   return absl::OkStatus();
                 });
}

// Answered once: by Start, or by the callback of the engine. Held by the caller, and by
// a stop of the call, which may come at any time, even before the prediction is queued.
class PredictHandler final : public CallEvents,
                             public std::enable_shared_from_this<PredictHandler> {
 public:
  PredictHandler(const CallServices& services, UnaryCaller& caller,
                 const v1::PredictRequest& request, v1::PredictResponse& response)
      : services_(services),
        caller_(caller),
        request_(request),
        scope_(ScopeOf(request)),
        response_(response) {}

  void Start() {
    open_ = services_.calls.Add(
        [weak = weak_from_this()](const absl::Status& status) {
          if (const auto handler = weak.lock()) handler->Stop(status);
        },
        caller_.CancelFunction(), caller_.connection());
    const absl::Status status = Guarded([&] { return Begin(); });
    if (!status.ok()) End(status);
  }

  void OnGone() override { Stop(std::nullopt); }
  void OnDone() override { services_.calls.Remove(open_); }

 private:
  absl::Status Begin() {
    services_.RecordNames(caller_, "",
                          ParseOptionalModel(request_.model(), "model").value_or(""));
    MNEMON_RETURN_IF_ERROR(services_.admission.Admit(caller_));
    MNEMON_ASSIGN_OR_RETURN(PredictRequest request, FromMessage(request_));
    request.deadline = caller_.deadline();
    MNEMON_ASSIGN_OR_RETURN(const ModelFacts facts,
                            services_.engine.GetModel(request.model));
    const auto tokens = static_cast<int64_t>(request.tokens.size());
    caller_.progress().AddPromptTokens(tokens);
    shape_ = {
        .batch = request.batch, .time = tokens / request.batch, .vocab = facts.vocab};
    MNEMON_ASSIGN_OR_RETURN(
        std::function<void()> cancel,
        services_.engine.Predict(std::move(request), [this](auto output) {
          End(Guarded([&]() -> absl::Status {
            MNEMON_RETURN_IF_ERROR(output.status());
            ToMessage(*output, shape_, response_);
            return absl::OkStatus();
          }));
        }));
    {
      std::lock_guard lock(mutex_);
      cancel_ = std::move(cancel);
      if (!stopped_) return absl::OkStatus();
    }
    cancel_();
    return absl::OkStatus();
  }

  // Cancels the prediction; the call ends with `status`, if one is given.
  void Stop(const std::optional<absl::Status>& status) {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
      if (!status_) status_ = status;
      if (!cancel_) return;
    }
    cancel_();
  }

  void End(const absl::Status& status) {
    open_->AwaitTransport();
    if (!absl::IsCancelled(status)) return caller_.Answer(status, scope_);
    std::unique_lock lock(mutex_);
    const absl::Status end = status_.value_or(EndOfCaller(caller_));
    lock.unlock();
    caller_.Answer(end, scope_);
  }

  const CallServices services_;
  UnaryCaller& caller_;
  const v1::PredictRequest& request_;
  const RequestScope scope_;
  v1::PredictResponse& response_;
  std::shared_ptr<OpenCall> open_;
  PredictShape shape_;

  std::mutex mutex_;
  std::function<void()> cancel_;        // set under mutex_, then constant
  bool stopped_ = false;                // guarded by mutex_
  std::optional<absl::Status> status_;  // guarded by mutex_
};

void Predict(const CallServices& services, UnaryCaller& caller,
             const v1::PredictRequest& request, v1::PredictResponse& response) {
  const auto handler =
      std::make_shared<PredictHandler>(services, caller, request, response);
  caller.Watch(handler);
  handler->Start();
}

}  // namespace

const UnaryMethod<v1::TokenizeRequest, v1::TokenizeResponse> kTokenize = {
    "mnemon.v1.Generation/Tokenize", &Tokenize};
const UnaryMethod<v1::DetokenizeRequest, v1::DetokenizeResponse> kDetokenize = {
    "mnemon.v1.Generation/Detokenize", &Detokenize};
const UnaryMethod<v1::PredictRequest, v1::PredictResponse> kPredict = {
    "mnemon.v1.Generation/Predict", &Predict};
const UnaryMethod<v1::ListModelsRequest, v1::ListModelsResponse> kListModels = {
    "mnemon.v1.Models/ListModels", &ListModels};
const UnaryMethod<v1::GetModelRequest, v1::Model> kGetModel = {
    "mnemon.v1.Models/GetModel", &GetModel};

}  // namespace mnemon
