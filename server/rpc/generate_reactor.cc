// SPDX-License-Identifier: MIT
#include <memory>
#include <string>
#include <utility>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/engine/engine_errors.h"
#include "server/rpc/call_context.h"
#include "server/rpc/call_serializer.h"
#include "server/rpc/guard.h"
#include "server/rpc/messages.h"
#include "server/rpc/reactors.h"
#include "server/rpc/resource_name.h"

namespace mnemon {
namespace {

// All members but turn_ belong to the holder of turn_; OnCancel and OnDone come from
// gRPC, which keeps the reactor alive for them.
class GenerateReactor final : public grpc::ServerWriteReactor<v1::GenerateResponse> {
 public:
  GenerateReactor(const CallServices& shared, grpc::CallbackServerContext* context,
                  const v1::GenerateRequest* request)
      : calls_(shared.calls),
        context_(context),
        call_(*CallOf(context)),
        scope_(ScopeOf(*request)),
        resumable_(!request->session().empty() && !request->request_id().empty()),
        turn_(std::make_shared<CallSerializer>()) {
    open_ = calls_.Add(
        [this, turn = turn_](const absl::Status& status) {
          if (turn->AcquireToStop(status)) Advance();
        },
        CancelFunctionOf(*context), CallOf(context)->connection());
    if (request->session().empty()) {
      Begin(shared, *request, absl::OkStatus());
      return;
    }
    const absl::Status waits = Guarded([&] {
      shared.handlers.Run([this, &shared, request](const absl::Status& turn) {
        Begin(shared, *request, turn);
      });
      return absl::OkStatus();
    });
    if (!waits.ok()) Begin(shared, *request, waits);
  }

  void OnWriteDone(bool ok) override {
    open_->ResumeFromTransport();
    if (!ok) turn_->AcquireToStop(EndOfCaller(*context_));
    Advance();
  }

  void OnCancel() override {
    if (turn_->AcquireToStop(EndOfCaller(*context_))) Advance();
  }

  void OnDone() override {
    calls_.Remove(open_);
    delete this;
  }

 private:
  // REQUIRES: the caller holds turn_. An error of `turn` refuses the call.
  void Begin(const CallServices& shared, const v1::GenerateRequest& message,
             const absl::Status& turn) {
    GenerateRequest request;
    const absl::Status status = Guarded([&]() -> absl::Status {
      MNEMON_RETURN_IF_ERROR(turn);
      return Start(shared, message, request);
    });
    if (status.ok()) return Advance();
    static_cast<void>(Guarded([&] {
      shared.engine.RecordRefusal(request, status);
      return absl::OkStatus();
    }));
    End(status);
  }

  // Fills `request` as far as it comes.
  absl::Status Start(const CallServices& shared, const v1::GenerateRequest& message,
                     GenerateRequest& request) {
    // Before the rate limit, whose refusal has to stay cheap, only names are parsed and
    // looked up, for the record.
    request.model = ParseOptionalModel(message.model(), "model").value_or("");
    request.session = ParseOptionalSession(message.session(), "session").value_or("");
    call_.SetSession(request.session);
    const absl::StatusOr<std::string> model =
        ServingModel(shared.engine, request.session, request.model);
    if (model.ok()) call_.SetModel(*model);
    // Who has been stopped meanwhile begins nothing.
    if (std::optional<absl::Status> stop = turn_->stop()) return *std::move(stop);
    MNEMON_RETURN_IF_ERROR(shared.admission.Admit(*context_));
    MNEMON_ASSIGN_OR_RETURN(
        request,
        FromMessage(message, shared.engine.DefaultSampling(model.value_or(""))));
    request.deadline = DeadlineOf(*context_);
    // What is wrong with a session the engine tells.
    if (request.session.empty()) MNEMON_RETURN_IF_ERROR(model.status());
    if (model.ok()) model_ = ModelResource(*model);
    MNEMON_ASSIGN_OR_RETURN(stream_,
                            shared.engine.Generate(request, [this, turn = turn_] {
                              if (turn->Acquire()) Advance();
                            }));
    return absl::OkStatus();
  }

  // REQUIRES: the caller holds turn_. Returns with turn_ released, or held by a write
  // in flight, or held for ever by the end of the call.
  void Advance() {
    do {
      const std::optional<absl::Status> stop = turn_->stop();
      const bool going_down = stop && absl::IsUnavailable(*stop);
      if (stop && !going_down) return End(*stop);
      TokenChunk chunk;
      absl::Status status = Guarded([&] {
        chunk = stream_->Take();
        // The session has changed, whether its caller hears of that or not.
        if (chunk.finished && chunk.status.ok()) call_.AddDelivered();
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
        turn_->PassOn();
        open_->AwaitTransport();
        return StartWrite(&response_);
      }
    } while (!turn_->Release());
  }

  static bool HoldsOutput(const TokenChunk& chunk) {
    return chunk.start || chunk.progress || !chunk.tokens.empty();
  }

  void Fill(const TokenChunk& chunk) {
    ToMessage(chunk, scope_.session, model_, response_);
    if (chunk.start) {
      prompt_end_ = chunk.start->first_index + chunk.start->prompt_tokens;
      call_.SetQueueTime(chunk.start->queue_time);
      call_.AddPromptTokens(chunk.start->prompt_tokens);
    }
    call_.AddGeneratedTokens(static_cast<int64_t>(chunk.tokens.size()));
    if (chunk.finish) {
      response_.mutable_finish()->set_token_count(prompt_end_ +
                                                  chunk.finish->generated_tokens);
    }
  }

  void DeliverLast(const TokenChunk& chunk) {
    if (!chunk.status.ok() && chunk.tokens.empty() && chunk.text.empty()) {
      return End(chunk.status);
    }
    open_->AwaitTransport();
    StartWriteAndFinish(&response_, grpc::WriteOptions(),
                        ToGrpcStatus(chunk.status, scope_, context_));
  }

  void End(const absl::Status& status) {
    if (stream_ != nullptr) {
      stream_->Cancel();
      // The session keeps what was taken, also where no memory was left to write it.
      if (stream_->delivered() > 0) call_.AddDelivered();
    }
    open_->AwaitTransport();
    Finish(ToGrpcStatus(status, scope_, context_));
  }

  OpenCalls& calls_;
  grpc::CallbackServerContext* const context_;
  RpcCall& call_;
  const RequestScope scope_;
  const bool resumable_;
  // Shared with the notifications of the engine and of the shutdown, which may come
  // when the reactor is destroyed.
  const std::shared_ptr<CallSerializer> turn_;
  std::shared_ptr<OpenCall> open_;
  std::string model_;  // resource name
  std::shared_ptr<TokenStream> stream_;
  int64_t prompt_end_ = 0;  // index of the first generated token
  v1::GenerateResponse response_;
};

}  // namespace

absl::StatusOr<std::string> ServingModel(Engine& engine, const std::string& session,
                                         const std::string& model) {
  if (!session.empty()) {
    return engine.ModelOfSession(session);
  }
  MNEMON_ASSIGN_OR_RETURN(ModelFacts facts, engine.GetModel(model));
  return facts.name;
}

void RecordNames(RpcCall& call, Engine& engine, const std::string& session,
                 const std::string& model) {
  call.SetSession(session);
  call.SetModel(ServingModel(engine, session, model).value_or(""));
}

grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerate(
    const CallServices& shared, grpc::CallbackServerContext* context,
    const v1::GenerateRequest* request) {
  return MakeReactor<GenerateReactor>(context, shared, context, request);
}

}  // namespace mnemon
