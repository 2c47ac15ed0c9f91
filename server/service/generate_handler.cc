// SPDX-License-Identifier: MIT
#include <memory>
#include <string>
#include <utility>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/requests/engine_errors.h"
#include "server/service/messages/messages.h"
#include "server/service/serialized_handler.h"

namespace mnemon {
namespace {

class GenerateHandler final : public WritingHandler<v1::GenerateResponse> {
 public:
  GenerateHandler(const CallServices& services, Caller& caller,
                  const v1::GenerateRequest& request,
                  ResponseWriter<v1::GenerateResponse>& writer)
      : WritingHandler(services, caller, writer), message_(request) {
    scope_ = ScopeOf(request);
  }

  void Start() override {
    Open();
    if (message_.session().empty()) return Begin(absl::OkStatus());
    const absl::Status waits = Guarded([&] {
      services_.handlers.Run([this](const absl::Status& turn) { Begin(turn); });
    });
    if (!waits.ok()) Begin(waits);
  }

 private:
  // REQUIRES: the caller holds the handler. An error of `turn` refuses the call.
  void Begin(const absl::Status& turn) {
    GenerateRequest request;
    const absl::Status status = Guarded([&]() -> absl::Status {
      MNEMON_RETURN_IF_ERROR(turn);
      return Submit(request);
    });
    if (status.ok()) return Advance(/*may_wait=*/false);
    (void)Guarded([&] { services_.engine.RecordRefusal(request, status); });
    End(status);
  }

  // Fills `request` as far as it comes.
  absl::Status Submit(GenerateRequest& request) {
    // Before the rate limit, whose refusal has to stay cheap, only names are parsed and
    // looked up, for the record.
    request.model = ParseOptionalModel(message_.model(), "model").value_or("");
    request.session = ParseOptionalSession(message_.session(), "session").value_or("");
    caller_.progress().SetSession(request.session);
    const absl::StatusOr<std::string> model =
        services_.ServingModel(request.session, request.model);
    if (model.ok()) caller_.progress().SetModel(*model);
    // Who has been stopped meanwhile begins nothing.
    if (std::optional<absl::Status> stop = holder_->stop()) return *std::move(stop);
    MNEMON_RETURN_IF_ERROR(services_.admission.Admit(caller_));
    MNEMON_ASSIGN_OR_RETURN(
        request,
        FromMessage(message_, services_.engine.DefaultSampling(model.value_or(""))));
    request.deadline = caller_.deadline();
    // What is wrong with a session the engine tells.
    if (request.session.empty()) MNEMON_RETURN_IF_ERROR(model.status());
    if (model.ok()) model_ = ModelResource(*model);
    MNEMON_ASSIGN_OR_RETURN(stream_,
                            services_.engine.Generate(request, Notification()));
    return absl::OkStatus();
  }

  absl::StatusOr<Next> Work(bool) override {
    const TokenChunk chunk = Take();
    if (chunk.finished || HoldsOutput(chunk)) Fill(chunk);
    if (!chunk.finished) return HoldsOutput(chunk) ? Next::kWrite : Next::kWait;
    if (!HoldsTokens(chunk)) MNEMON_RETURN_IF_ERROR(chunk.status);
    end_ = chunk.status;
    return Next::kWriteLast;
  }

  bool TakeRest(absl::Status& status) override {
    const TokenChunk chunk = Take();
    if (chunk.finished || HoldsOutput(chunk)) Fill(chunk);
    if (chunk.finished) {
      status = chunk.status;
    } else if (!scope_.session.empty()) {
      const bool resumable = !message_.request_id().empty();
      status = CatchOutOfMemory({}, [&] {
        return engine_errors::WithPromptTaken(status, stream_->delivered() > 0,
                                              resumable);
      });
    }
    return status.ok() || HoldsTokens(chunk);
  }

  static bool HoldsTokens(const TokenChunk& chunk) {
    return !chunk.tokens.empty() || !chunk.text.empty();
  }
  static bool HoldsOutput(const TokenChunk& chunk) {
    return chunk.start || chunk.progress || !chunk.tokens.empty();
  }

  void Fill(const TokenChunk& chunk) {
    ToMessage(chunk, scope_.session, model_, response_);
    RecordOutput(chunk);
  }

  const v1::GenerateRequest& message_;
  std::string model_;  // resource name
};

}  // namespace

std::unique_ptr<StreamHandler> MakeGenerateHandler(
    const CallServices& services, Caller& caller, const v1::GenerateRequest& request,
    ResponseWriter<v1::GenerateResponse>& writer) {
  return std::make_unique<GenerateHandler>(services, caller, request, writer);
}

}  // namespace mnemon
