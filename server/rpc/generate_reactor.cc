// SPDX-License-Identifier: MIT
#include "server/rpc/generate_reactor.h"

#include <memory>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "server/rpc/baton.h"
#include "server/rpc/guard.h"
#include "server/rpc/messages.h"
#include "server/rpc/resource_name.h"

namespace mnemon {
namespace {

// All members but baton_ belong to the holder of the baton; OnCancel and OnDone come
// from gRPC, which keeps the reactor alive for them.
class GenerateReactor final : public grpc::ServerWriteReactor<v1::GenerateResponse> {
 public:
  GenerateReactor(Engine& engine, OpenCalls& calls,
                  grpc::CallbackServerContext* context,
                  const v1::GenerateRequest* request)
      : calls_(calls),
        context_(context),
        scope_(ScopeOf(*request)),
        baton_(std::make_shared<Baton>()) {
    open_id_ = calls_.Add([this, baton = baton_](const absl::Status& status) {
      if (baton->TakeToStop(status)) Advance();
    });
    absl::Status status = Guarded([&] { return Begin(engine, *request); });
    if (status.ok()) {
      Advance();
    } else {
      End(status);
    }
  }

  void OnWriteDone(bool ok) override {
    if (!ok) baton_->TakeToStop(absl::CancelledError("the reader is gone"));
    Advance();
  }

  void OnCancel() override {
    if (baton_->TakeToStop(EndOfCaller(*context_))) Advance();
  }

  void OnDone() override {
    calls_.Remove(open_id_);
    delete this;
  }

 private:
  absl::Status Begin(Engine& engine, const v1::GenerateRequest& message) {
    GenerateRequest request;
    absl::Status status = [&]() -> absl::Status {
      MNEMON_ASSIGN_OR_RETURN(request, FromMessage(message));
      MNEMON_ASSIGN_OR_RETURN(model_, ServingModel(engine, request));
      return absl::OkStatus();
    }();
    if (!status.ok()) {
      engine.NoteRefused(request, status);
      return status;
    }
    MNEMON_ASSIGN_OR_RETURN(stream_, engine.Generate(request, [this, baton = baton_] {
      if (baton->Take()) Advance();
    }));
    return absl::OkStatus();
  }

  static absl::StatusOr<std::string> ServingModel(Engine& engine,
                                                  const GenerateRequest& request) {
    if (!request.session.empty()) {
      MNEMON_ASSIGN_OR_RETURN(SessionFacts facts, engine.GetSession(request.session));
      return ModelResource(facts.model);
    }
    MNEMON_ASSIGN_OR_RETURN(ModelFacts facts, engine.GetModel(request.model));
    return ModelResource(facts.name);
  }

  // REQUIRES: the caller holds the baton. Returns with the baton given back, or kept by
  // a write in flight, or kept for ever by the end of the call.
  void Advance() {
    do {
      if (std::optional<absl::Status> stop = baton_->stop()) return End(*stop);
      TokenChunk chunk;
      absl::Status status = Guarded([&] {
        chunk = stream_->Take();
        if (chunk.finished || chunk.start || !chunk.tokens.empty()) Fill(chunk);
        return absl::OkStatus();
      });
      if (!status.ok()) return End(status);
      if (chunk.finished) return DeliverLast(chunk);
      if (chunk.start || !chunk.tokens.empty()) return StartWrite(&response_);
    } while (!baton_->Release());
  }

  void Fill(const TokenChunk& chunk) {
    ToMessage(chunk, scope_.session, model_, response_);
    if (chunk.start) {
      prompt_end_ = chunk.start->first_index + chunk.start->prompt_tokens;
    }
    if (chunk.finish) {
      response_.mutable_finish()->set_token_count(prompt_end_ +
                                                  chunk.finish->generated_tokens);
    }
  }

  void DeliverLast(const TokenChunk& chunk) {
    if (!chunk.status.ok() && chunk.tokens.empty() && chunk.text.empty()) {
      return End(chunk.status);
    }
    StartWriteAndFinish(&response_, grpc::WriteOptions(),
                        ToGrpcStatus(chunk.status, scope_, context_));
  }

  void End(const absl::Status& status) {
    if (stream_ != nullptr) stream_->Cancel();
    Finish(ToGrpcStatus(status, scope_, context_));
  }

  OpenCalls& calls_;
  grpc::CallbackServerContext* const context_;
  const RequestScope scope_;
  // Shared with the engine's and the shutdown's way of waking this call, which may come
  // when the reactor is gone.
  const std::shared_ptr<Baton> baton_;
  int64_t open_id_ = 0;
  std::string model_;  // resource name
  std::shared_ptr<TokenStream> stream_;
  int64_t prompt_end_ = 0;  // index of the first generated token
  v1::GenerateResponse response_;
};

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerate(
    Engine& engine, OpenCalls& calls, grpc::CallbackServerContext* context,
    const v1::GenerateRequest* request) {
  return new GenerateReactor(engine, calls, context, request);
}

}  // namespace mnemon
