// SPDX-License-Identifier: MIT
#include <memory>
#include <string>
#include <utility>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/requests/engine_errors.h"
#include "server/service/generation_output.h"
#include "server/service/guard.h"
#include "server/service/messages/messages.h"
#include "server/service/messages/resource_name.h"
#include "server/service/serialized_handler.h"

namespace mnemon {
namespace {

class GenerateHandler final : public SerializedHandler {
 public:
  GenerateHandler(const CallServices& services, Caller& caller,
                  const v1::GenerateRequest& request,
                  ResponseWriter<v1::GenerateResponse>& writer)
      : SerializedHandler(services, caller),
        message_(request),
        writer_(writer),
        scope_(ScopeOf(request)),
        resumable_(!request.session().empty() && !request.request_id().empty()) {}

  void Start() override {
    Open();
    if (message_.session().empty()) return Begin(absl::OkStatus());
    const absl::Status waits = Guarded([&] {
      services_.handlers.Run([this](const absl::Status& turn) { Begin(turn); });
      return absl::OkStatus();
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
    static_cast<void>(Guarded([&] {
      services_.engine.RecordRefusal(request, status);
      return absl::OkStatus();
    }));
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
        ServingModel(services_.engine, request.session, request.model);
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

  void Advance(bool) override {
    do {
      const std::optional<absl::Status> stop = holder_->stop();
      const bool going_down = stop && absl::IsUnavailable(*stop);
      if (stop && !going_down) return End(*stop);
      TokenChunk chunk;
      absl::Status status = Guarded([&] {
        chunk = stream_->Take();
        // The session has changed, whether its caller hears of that or not.
        if (chunk.finished && chunk.status.ok()) caller_.progress().AddDelivered();
        if (chunk.finished || HoldsOutput(chunk)) Fill(chunk);
        return absl::OkStatus();
      });
      if (!status.ok()) return End(status);
      if (going_down && !chunk.finished) {
        // Its caller listens: it gets what waited.
        stream_->Cancel();
        chunk.status = *stop;
        if (!scope_.session.empty()) {
          chunk.status = CatchOutOfMemory({}, [&] {
            return engine_errors::WithPromptTaken(*stop, stream_->delivered() > 0,
                                                  resumable_);
          });
        }
        chunk.finished = true;
      }
      if (chunk.finished) return DeliverLast(chunk);
      if (HoldsOutput(chunk)) {
        holder_->PassOn();
        open_call_->AwaitTransport();
        return writer_.Write(response_);
      }
    } while (!holder_->Release());
  }

  static bool HoldsOutput(const TokenChunk& chunk) {
    return chunk.start || chunk.progress || !chunk.tokens.empty();
  }

  void Fill(const TokenChunk& chunk) {
    output_.Fill(chunk, scope_.session, model_, caller_.progress(), response_);
  }

  void DeliverLast(const TokenChunk& chunk) {
    if (!chunk.status.ok() && chunk.tokens.empty() && chunk.text.empty()) {
      return End(chunk.status);
    }
    open_call_->AwaitTransport();
    writer_.WriteLast(response_, chunk.status, scope_);
  }

  void End(const absl::Status& status) override {
    if (stream_ != nullptr) {
      stream_->Cancel();
      // The session keeps what was taken, also where no memory was left to write it.
      if (stream_->delivered() > 0) caller_.progress().AddDelivered();
    }
    open_call_->AwaitTransport();
    writer_.Finish(status, scope_);
  }

  const v1::GenerateRequest& message_;
  ResponseWriter<v1::GenerateResponse>& writer_;
  const RequestScope scope_;
  const bool resumable_;
  std::string model_;  // resource name
  std::shared_ptr<TokenStream> stream_;
  GenerationOutput output_;
  v1::GenerateResponse response_;
};

}  // namespace

std::unique_ptr<StreamHandler> MakeGenerateHandler(
    const CallServices& services, Caller& caller, const v1::GenerateRequest& request,
    ResponseWriter<v1::GenerateResponse>& writer) {
  return std::make_unique<GenerateHandler>(services, caller, request, writer);
}

}  // namespace mnemon
