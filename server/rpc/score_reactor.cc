// SPDX-License-Identifier: MIT
#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/status_macros.h"
#include "server/rpc/call_context.h"
#include "server/rpc/call_serializer.h"
#include "server/rpc/guard.h"
#include "server/rpc/messages.h"
#include "server/rpc/reactors.h"
#include "server/rpc/resource_name.h"

namespace mnemon {
namespace {

// All members but turn_ and read_ belong to the holder of turn_; the request belongs to
// gRPC while a read is in flight.
class ScoreReactor final
    : public grpc::ServerBidiReactor<v1::ScoreRequest, v1::ScoreResponse> {
 public:
  ScoreReactor(const CallServices& shared, grpc::CallbackServerContext* context)
      : engine_(shared.engine),
        calls_(shared.calls),
        handlers_(shared.handlers),
        context_(context),
        call_record_(*CallOf(context)),
        turn_(std::make_shared<CallSerializer>()) {
    open_ = calls_.Add(
        [this, turn = turn_](const absl::Status& status) {
          if (turn->AcquireToStop(status)) Advance();
        },
        CancelFunctionOf(*context), CallOf(context)->connection());
    const absl::Status admitted =
        Guarded([&] { return shared.admission.Admit(*context); });
    if (admitted.ok()) {
      open_->AwaitMessage();
      Advance();
    } else {
      End(admitted);
    }
  }

  void OnReadDone(bool ok) override {
    open_->TakeMessage();
    read_ = ok ? Read::kMessage : Read::kEnd;
    if (turn_->Acquire()) Advance();
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
    // gRPC may report the end of the caller's messages, which alone is an error, before
    // the cancellation.
    if (!call_ && context_->IsCancelled()) {
      call_record_.ReplaceEnd(EndOfCaller(*context_).code(), "");
    }
    calls_.Remove(open_);
    delete this;
  }

 private:
  enum class Read { kIdle, kInFlight, kMessage, kEnd };
  enum class Next {
    kWait,
    kHandler,    // a message that waits is for one of handlers_
    kWrite,      // response_
    kWriteLast,  // response_, then the stream ends with end_
  };

  // REQUIRES: the caller holds turn_; it `may_wait` on one of handlers_. Returns with
  // turn_ released, or held by a handler or a write in flight, or held for ever by the
  // end of the call.
  void Advance(bool may_wait = false) {
    do {
      if (const std::optional<absl::Status> stop = turn_->stop()) {
        return call_ && absl::IsUnavailable(*stop) ? EndByServer(*stop) : End(*stop);
      }
      Next next = Next::kWait;
      const absl::Status status = Guarded([&]() -> absl::Status {
        MNEMON_RETURN_IF_ERROR(Work(next, may_wait));
        if (next != Next::kHandler) return absl::OkStatus();
        handlers_.Run([this](const absl::Status& turn) {
          turn.ok() ? Advance(/*may_wait=*/true) : End(turn);
        });
        return absl::OkStatus();
      });
      if (!status.ok()) return End(status);
      switch (next) {
        case Next::kWait:
          break;
        case Next::kHandler:
          return;
        case Next::kWrite:
          turn_->PassOn();
          open_->AwaitTransport();
          return StartWrite(&response_);
        case Next::kWriteLast:
          open_->AwaitTransport();
          return StartWriteAndFinish(&response_, {},
                                     ToGrpcStatus(end_, scope_, context_));
      }
    } while (!turn_->Release());
  }

  absl::Status Work(Next& next, bool may_wait) {
    if (std::exchange(asked_, false)) call_->close();
    if (call_) {
      const TokenChunk chunk = call_->stream->Take();
      // A session may have changed, whether its caller hears of that or not.
      if (chunk.finished && chunk.status.ok()) call_record_.AddDelivered();
      // Scores that came with an error are delivered before it.
      if (chunk.logprobs.empty()) MNEMON_RETURN_IF_ERROR(chunk.status);
      Fill(chunk);
      end_ = chunk.status;
      if (!chunk.logprobs.empty()) next = Next::kWrite;
      if (chunk.finished) next = Next::kWriteLast;
      if (next != Next::kWait) return absl::OkStatus();
    }
    // The parts so far are answered: on to the next one.
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
          // It looks for the session.
          if (!may_wait && !call_) {
            next = Next::kHandler;
            return absl::OkStatus();
          }
          read_ = Read::kIdle;
          MNEMON_RETURN_IF_ERROR(TakeMessage());
          break;
        case Read::kEnd:
          read_ = Read::kIdle;
          closed_ = true;
          if (!call_) return NotOpened();
          // A lost stream looks the same until gRPC reports its cancellation, but takes
          // no message any more.
          if (commit_) {
            response_.Clear();
            asked_ = true;
            next = Next::kWrite;
          } else {
            call_->close();
          }
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
    MNEMON_ASSIGN_OR_RETURN(const Prompt part, FromMessage(request_.part()));
    MNEMON_ASSIGN_OR_RETURN(awaited_, call_->append(part));
    return absl::OkStatus();
  }

  absl::Status Open(const v1::ScoreRequest::Open& open) {
    scope_ = ScopeOf(open);
    RecordNames(call_record_, engine_,
                ParseOptionalSession(open.session(), "session").value_or(""),
                ParseOptionalModel(open.model(), "model").value_or(""));
    commit_ = open.commit();
    MNEMON_ASSIGN_OR_RETURN(ScoreRequest request, FromMessage(open));
    request.deadline = DeadlineOf(*context_);
    MNEMON_ASSIGN_OR_RETURN(call_, engine_.Score(request, [this, turn = turn_] {
      if (turn->Acquire()) Advance();
    }));
    return absl::OkStatus();
  }

  void Fill(const TokenChunk& chunk) {
    response_.Clear();
    ReserveMore(chunk.logprobs.size(), *response_.mutable_logprobs());
    for (size_t i = 0; i < chunk.logprobs.size(); ++i) {
      ToMessage(chunk.logprobs[i], chunk.first_index + static_cast<int64_t>(i),
                *response_.add_logprobs());
      logprob_sum_ += chunk.logprobs[i].logprob;
    }
    const auto count = static_cast<int64_t>(chunk.logprobs.size());
    if (count > 0) call_record_.AddDelivered();
    call_record_.AddPromptTokens(count);
    scored_ += count;
    awaited_ -= count;
    if (!chunk.finished || !chunk.status.ok()) return;
    response_.mutable_summary()->set_token_count(scored_);
    response_.mutable_summary()->set_logprob_sum(logprob_sum_);
  }

  // The caller listens: it gets the scores that wait before the status.
  void EndByServer(absl::Status status) {
    bool filled = false;
    const absl::Status taken = Guarded([&] {
      const TokenChunk chunk = call_->stream->Take();
      if (chunk.finished) status = chunk.status;  // it has ended by itself
      if (status.ok()) call_record_.AddDelivered();
      Fill(chunk);
      filled = status.ok() || !chunk.logprobs.empty();
      return absl::OkStatus();
    });
    if (!taken.ok()) return End(taken);
    if (!filled) return End(status);
    call_->stream->Cancel();
    open_->AwaitTransport();
    StartWriteAndFinish(&response_, {}, ToGrpcStatus(status, scope_, context_));
  }

  void End(const absl::Status& status) {
    if (call_) {
      call_->stream->Cancel();
      // What was taken may be lost where no memory was left to write it.
      if (call_->stream->delivered() > 0) call_record_.AddDelivered();
    }
    open_->AwaitTransport();
    Finish(ToGrpcStatus(status, scope_, context_));
  }

  Engine& engine_;
  OpenCalls& calls_;
  HandlerThreads& handlers_;
  grpc::CallbackServerContext* const context_;
  RpcCall& call_record_;
  // Shared with the notifications of the engine and of the shutdown, which may come
  // when the reactor is destroyed.
  const std::shared_ptr<CallSerializer> turn_;
  std::atomic<Read> read_ = Read::kIdle;
  std::shared_ptr<OpenCall> open_;
  RequestScope scope_;
  std::optional<ScoreCall> call_;
  bool commit_ = false;
  bool closed_ = false;  // the caller has sent all
  bool asked_ = false;   // whether the caller is there to have it committed
  absl::Status end_;     // of the stream, behind response_
  int64_t awaited_ = 0;  // tokens of the parts so far that were not scored yet
  int64_t scored_ = 0;
  double logprob_sum_ = 0;
  v1::ScoreRequest request_;
  v1::ScoreResponse response_;
};

}  // namespace

grpc::ServerBidiReactor<v1::ScoreRequest, v1::ScoreResponse>* StartScore(
    const CallServices& shared, grpc::CallbackServerContext* context) {
  return MakeReactor<ScoreReactor>(context, shared, context);
}

}  // namespace mnemon
