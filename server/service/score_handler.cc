// SPDX-License-Identifier: MIT
#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/status_macros.h"
#include "server/service/guard.h"
#include "server/service/messages/messages.h"
#include "server/service/messages/resource_name.h"
#include "server/service/serialized_handler.h"

namespace mnemon {
namespace {

// All members but read_ belong to the holder of the handler; the request
// belongs to the door while a read is in flight.
class ScoreHandler final : public SerializedHandler {
 public:
  ScoreHandler(const CallServices& services, Caller& caller,
               RequestReader<v1::ScoreRequest>& reader,
               ResponseWriter<v1::ScoreResponse>& writer)
      : SerializedHandler(services, caller), reader_(reader), writer_(writer) {}

  void Start() override {
    Open();
    const absl::Status admitted =
        Guarded([&] { return services_.admission.Admit(caller_); });
    if (admitted.ok()) {
      open_call_->AwaitMessage();
      Advance(/*may_wait=*/false);
    } else {
      End(admitted);
    }
  }

  void OnRead(bool message) override {
    open_call_->TakeMessage();
    read_ = message ? Read::kMessage : Read::kEnd;
    if (holder_->Acquire()) Advance(/*may_wait=*/false);
  }

  void OnDone() override {
    // gRPC may report the end of the caller's messages, which alone is an error, before
    // the cancellation.
    if (!call_ && caller_.gone()) {
      caller_.progress().ReplaceEnd(EndOfCaller(caller_).code(), "");
    }
    SerializedHandler::OnDone();
  }

 private:
  enum class Read { kIdle, kInFlight, kMessage, kEnd };
  enum class Next {
    kWait,
    kHandler,    // a message that waits is for one of handlers_
    kWrite,      // response_
    kWriteLast,  // response_, then the stream ends with end_
  };

  void Advance(bool may_wait) override {
    do {
      if (const std::optional<absl::Status> stop = holder_->stop()) {
        return call_ && absl::IsUnavailable(*stop) ? EndByServer(*stop) : End(*stop);
      }
      Next next = Next::kWait;
      const absl::Status status = Guarded([&]() -> absl::Status {
        MNEMON_RETURN_IF_ERROR(Work(next, may_wait));
        if (next != Next::kHandler) return absl::OkStatus();
        AdvanceApart();
        return absl::OkStatus();
      });
      if (!status.ok()) return End(status);
      switch (next) {
        case Next::kWait:
          break;
        case Next::kHandler:
          return;
        case Next::kWrite:
          holder_->PassOn();
          open_call_->AwaitTransport();
          return writer_.Write(response_);
        case Next::kWriteLast:
          open_call_->AwaitTransport();
          return writer_.WriteLast(response_, end_, scope_);
      }
    } while (!holder_->Release());
  }

  absl::Status Work(Next& next, bool may_wait) {
    if (std::exchange(asked_, false)) call_->close();
    if (call_) {
      const TokenChunk chunk = call_->stream->Take();
      // A session may have changed, whether its caller hears of that or not.
      if (chunk.finished && chunk.status.ok()) caller_.progress().AddDelivered();
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
          reader_.Read(request_);
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
      return TakeOpen(request_.open());
    }
    if (!call_) return NotOpened();
    if (!request_.has_part()) return InvalidField("part", "the message holds nothing");
    MNEMON_ASSIGN_OR_RETURN(const Prompt part, FromMessage(request_.part()));
    MNEMON_ASSIGN_OR_RETURN(awaited_, call_->append(part));
    return absl::OkStatus();
  }

  absl::Status TakeOpen(const v1::ScoreRequest::Open& open) {
    scope_ = ScopeOf(open);
    RecordNames(caller_.progress(), services_.engine,
                ParseOptionalSession(open.session(), "session").value_or(""),
                ParseOptionalModel(open.model(), "model").value_or(""));
    commit_ = open.commit();
    MNEMON_ASSIGN_OR_RETURN(ScoreRequest request, FromMessage(open));
    request.deadline = caller_.deadline();
    MNEMON_ASSIGN_OR_RETURN(call_, services_.engine.Score(request, Notification()));
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
    if (count > 0) caller_.progress().AddDelivered();
    caller_.progress().AddPromptTokens(count);
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
      if (status.ok()) caller_.progress().AddDelivered();
      Fill(chunk);
      filled = status.ok() || !chunk.logprobs.empty();
      return absl::OkStatus();
    });
    if (!taken.ok()) return End(taken);
    if (!filled) return End(status);
    call_->stream->Cancel();
    open_call_->AwaitTransport();
    writer_.WriteLast(response_, status, scope_);
  }

  void End(const absl::Status& status) override {
    if (call_) {
      call_->stream->Cancel();
      // What was taken may be lost where no memory was left to write it.
      if (call_->stream->delivered() > 0) caller_.progress().AddDelivered();
    }
    open_call_->AwaitTransport();
    writer_.Finish(status, scope_);
  }

  RequestReader<v1::ScoreRequest>& reader_;
  ResponseWriter<v1::ScoreResponse>& writer_;
  std::atomic<Read> read_ = Read::kIdle;
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

std::unique_ptr<StreamHandler> MakeScoreHandler(
    const CallServices& services, Caller& caller,
    RequestReader<v1::ScoreRequest>& reader,
    ResponseWriter<v1::ScoreResponse>& writer) {
  return std::make_unique<ScoreHandler>(services, caller, reader, writer);
}

}  // namespace mnemon
