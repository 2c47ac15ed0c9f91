// SPDX-License-Identifier: MIT
#include "server/rpc/score_reactor.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/status_macros.h"
#include "server/rpc/baton.h"
#include "server/rpc/guard.h"
#include "server/rpc/messages.h"

namespace mnemon {
namespace {

// All members but baton_ and read_ belong to the holder of the baton; the request
// belongs to gRPC while a read is in flight.
class ScoreReactor final
    : public grpc::ServerBidiReactor<v1::ScoreRequest, v1::ScoreResponse> {
 public:
  ScoreReactor(Engine& engine, OpenCalls& calls, grpc::CallbackServerContext* context)
      : engine_(engine),
        calls_(calls),
        context_(context),
        baton_(std::make_shared<Baton>()) {
    open_id_ = calls_.Add([this, baton = baton_](const absl::Status& status) {
      if (baton->TakeToStop(status)) Advance();
    });
    Advance();
  }

  void OnReadDone(bool ok) override {
    read_ = ok ? Read::kMessage : Read::kEnd;
    if (baton_->Take()) Advance();
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
  enum class Read { kIdle, kInFlight, kMessage, kEnd };

  // REQUIRES: the caller holds the baton. Returns with the baton given back, or kept by
  // a write in flight, or kept for ever by the end of the call.
  void Advance() {
    do {
      if (std::optional<absl::Status> stop = baton_->stop()) return End(*stop);
      bool writing = false;
      const absl::Status status = Guarded([&] { return Work(writing); });
      if (!status.ok()) return End(status);
      if (over_) return StartWriteAndFinish(&response_, {}, grpc::Status::OK);
      if (writing) return StartWrite(&response_);
    } while (!baton_->Release());
  }

  absl::Status Work(bool& writing) {
    if (call_) {
      const TokenChunk chunk = call_->stream->Take();
      if (chunk.finished) MNEMON_RETURN_IF_ERROR(chunk.status);
      Fill(chunk);
      over_ = chunk.finished;
      writing = !chunk.logprobs.empty();
      if (over_ || writing) return absl::OkStatus();
    }
    // Everything was said about the parts so far: on to the next one.
    while (awaited_ == 0) {
      switch (read_.load()) {
        case Read::kIdle:
          if (closed_) return absl::OkStatus();
          read_ = Read::kInFlight;
          StartRead(&request_);
          return absl::OkStatus();
        case Read::kInFlight:
          return absl::OkStatus();
        case Read::kMessage:
          read_ = Read::kIdle;
          MNEMON_RETURN_IF_ERROR(TakeMessage());
          break;
        case Read::kEnd:
          read_ = Read::kIdle;
          closed_ = true;
          if (!call_) return NotOpened();
          call_->close();
          return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  static absl::Status NotOpened() {
    return InvalidField("open", "the first message must hold open");
  }

  absl::Status TakeMessage() {
    if (request_.has_open()) {
      if (call_) return InvalidField("open", "only the first message holds open");
      return Open(request_.open());
    }
    if (!call_) return NotOpened();
    if (!request_.has_part()) return InvalidField("part", "the message holds nothing");
    MNEMON_ASSIGN_OR_RETURN(awaited_, call_->append(FromMessage(request_.part())));
    return absl::OkStatus();
  }

  absl::Status Open(const v1::ScoreRequest::Open& open) {
    scope_ = ScopeOf(open);
    MNEMON_ASSIGN_OR_RETURN(const ScoreRequest request, FromMessage(open));
    MNEMON_ASSIGN_OR_RETURN(call_, engine_.Score(request, [this, baton = baton_] {
      if (baton->Take()) Advance();
    }));
    return absl::OkStatus();
  }

  void Fill(const TokenChunk& chunk) {
    response_.Clear();
    for (size_t i = 0; i < chunk.logprobs.size(); ++i) {
      ToMessage(chunk.logprobs[i], chunk.first_index + static_cast<int64_t>(i),
                *response_.add_logprobs());
      logprob_sum_ += chunk.logprobs[i].logprob;
    }
    judged_ += static_cast<int64_t>(chunk.logprobs.size());
    awaited_ -= static_cast<int64_t>(chunk.logprobs.size());
    if (!chunk.finished) return;
    response_.mutable_summary()->set_token_count(judged_);
    response_.mutable_summary()->set_logprob_sum(logprob_sum_);
  }

  void End(const absl::Status& status) {
    if (call_) call_->stream->Cancel();
    Finish(ToGrpcStatus(status, scope_, context_));
  }

  Engine& engine_;
  OpenCalls& calls_;
  grpc::CallbackServerContext* const context_;
  // Shared with the engine's and the shutdown's way of waking this call, which may come
  // when the reactor is gone.
  const std::shared_ptr<Baton> baton_;
  std::atomic<Read> read_ = Read::kIdle;
  int64_t open_id_ = 0;
  RequestScope scope_;
  std::optional<ScoreCall> call_;
  bool closed_ = false;  // the caller has sent all
  bool over_ = false;    // the last message is in response_
  int64_t awaited_ = 0;  // tokens of the parts so far that were not judged yet
  int64_t judged_ = 0;
  double logprob_sum_ = 0;
  v1::ScoreRequest request_;
  v1::ScoreResponse response_;
};

}  // namespace

grpc::ServerBidiReactor<v1::ScoreRequest, v1::ScoreResponse>* StartScore(
    Engine& engine, OpenCalls& calls, grpc::CallbackServerContext* context) {
  return new ScoreReactor(engine, calls, context);
}

}  // namespace mnemon
