// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/service/generation_output.h"
#include "server/service/guard.h"
#include "server/service/messages/messages.h"
#include "server/service/messages/resource_name.h"
#include "server/service/serialized_handler.h"

namespace mnemon {
namespace {

// That a caller may have granted and not used.
constexpr int64_t kMaxCredits = std::numeric_limits<int32_t>::max();

absl::Status NotOpened() {
  return InvalidField("open", "the first message must hold open");
}

absl::Status TurnRunning() {
  return MakeError(absl::StatusCode::kAborted,
                   "a turn runs: the next one comes after its finish, or an interrupt",
                   {.reason = "TURN_RUNNING", .field = "turn"});
}

// The caller can grant none any more.
absl::Status NoCredits() {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   "the turn has tokens left, but all credits are used and the caller "
                   "has closed its side",
                   {.reason = "NO_CREDITS", .field = "credits.token_count"});
}

// All members but read_ belong to the holder of the handler; the request
// belongs to the door while a read is in flight.
class ConverseHandler final : public SerializedHandler {
 public:
  ConverseHandler(const CallServices& services, Caller& caller,
                  RequestReader<v1::ConverseRequest>& reader,
                  ResponseWriter<v1::ConverseResponse>& writer)
      : SerializedHandler(services, caller), reader_(reader), writer_(writer) {}

  void Start() override {
    Open();
    const absl::Status admitted =
        Guarded([&] { return services_.admission.Admit(caller_); });
    if (admitted.ok()) {
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
    // gRPC may report the end of the caller's messages before the cancellation.
    if (ended_by_close_ && caller_.gone()) {
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
    kEnd,        // with OK
  };

  void Advance(bool may_wait) override {
    do {
      if (const std::optional<absl::Status> stop = holder_->stop()) {
        return stream_ && absl::IsUnavailable(*stop) ? EndByServer(*stop) : End(*stop);
      }
      Next next = Next::kWait;
      const absl::Status status = Guarded([&]() -> absl::Status {
        MNEMON_RETURN_IF_ERROR(Work(next, may_wait));
        if (next != Next::kHandler) return absl::OkStatus();
        open_call_->TakeMessage();
        AdvanceApart();
        return absl::OkStatus();
      });
      if (!status.ok()) return End(status);
      switch (next) {
        case Next::kWait:
          NoteWait();
          break;
        case Next::kHandler:
          return;
        case Next::kWrite:
          open_call_->TakeCredits();
          holder_->PassOn();
          open_call_->AwaitTransport();
          return writer_.Write(response_);
        case Next::kWriteLast:
          return EndAfterWrite(end_);
        case Next::kEnd:
          return End(absl::OkStatus());
      }
    } while (!holder_->Release());
  }

  absl::Status Work(Next& next, bool may_wait) {
    MNEMON_RETURN_IF_ERROR(TakeMessages(next, may_wait));
    if (next != Next::kWait) return absl::OkStatus();
    if (stream_) MNEMON_RETURN_IF_ERROR(TakeOutput(next));
    if (next != Next::kWait || !closed_) return absl::OkStatus();
    ended_by_close_ = !stream_ || starved();
    if (!stream_) next = Next::kEnd;
    return starved() ? NoCredits() : absl::OkStatus();
  }

  absl::Status TakeMessages(Next& next, bool may_wait) {
    while (next == Next::kWait && !interrupted_) {
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
          if (!may_wait && !stream_ && !request_.has_credits()) {
            next = Next::kHandler;
            return absl::OkStatus();
          }
          read_ = Read::kIdle;
          MNEMON_RETURN_IF_ERROR(TakeMessage(next));
          break;
        case Read::kEnd:
          read_ = Read::kIdle;
          closed_ = true;
          ended_by_close_ = !open_;
          return open_ ? absl::OkStatus() : NotOpened();
      }
    }
    return absl::OkStatus();
  }

  absl::Status TakeMessage(Next& next) {
    using Message = v1::ConverseRequest;
    if (!open_ && !request_.has_open()) return NotOpened();
    switch (request_.request_case()) {
      case Message::kOpen:
        if (open_) return InvalidField("open", "only the first message holds open");
        next = Next::kWrite;
        return TakeOpen(request_.open());
      case Message::kTurn:
        if (stream_) return TurnRunning();
        return Begin(request_.turn());
      case Message::kCredits:
        return AddCredits(request_.credits().token_count(), /*least=*/1,
                          "credits.token_count");
      case Message::kInterrupt:
        if (stream_) {
          stream_->Cancel(CancelKind::kEnd);
          interrupted_ = true;
          return absl::OkStatus();
        }
        next = Next::kWrite;
        return AnswerInterrupt(std::nullopt);
      case Message::REQUEST_NOT_SET:
        break;
    }
    return InvalidField("request", "the message holds nothing");
  }

  absl::Status TakeOpen(const v1::ConverseRequest::Open& open) {
    open_.emplace(open);
    scope_ = ScopeOf(open);
    const absl::Status status = FindSession();
    if (!status.ok()) return ErrorOfTurn(status, open, {});
    return AddCredits(open.credit_token_count(), /*least=*/0,
                      "open.credit_token_count");
  }

  absl::Status FindSession() {
    RecordNames(caller_.progress(), services_.engine,
                ParseOptionalSession(open_->session(), "session").value_or(""),
                ParseOptionalModel(open_->model(), "model").value_or(""));
    MNEMON_ASSIGN_OR_RETURN(const GenerateRequest request,
                            FromMessage(TurnOf(*open_, {})));
    own_session_ = request.session.empty();
    MNEMON_ASSIGN_OR_RETURN(
        const SessionFacts facts,
        own_session_
            ? services_.engine.CreateSession({.model = request.model, .hidden = true})
            : services_.engine.GetSession(request.session));
    session_ = facts.id;
    if (!own_session_ && !request.model.empty()) {
      MNEMON_ASSIGN_OR_RETURN(const ModelFacts named,
                              services_.engine.GetModel(request.model));
      if (named.name != facts.model) {
        return MakeError(absl::StatusCode::kFailedPrecondition,
                         StrCat("session ", Quoted(session_), " belongs to model ",
                                Quoted(facts.model)),
                         {.reason = "MODEL_MISMATCH", .field = "model"});
      }
    }
    sampling_ = services_.engine.DefaultSampling(facts.model);
    model_ = ModelResource(facts.model);
    response_.Clear();
    v1::ConverseResponse::Opened& opened = *response_.mutable_opened();
    opened.set_session(scope_.session);
    opened.set_model(model_);
    opened.set_token_count(facts.position);
    return absl::OkStatus();
  }

  absl::Status AddCredits(int64_t count, int64_t least, const std::string& field) {
    if (count < least || count > kMaxCredits - credits_) {
      return InvalidField(
          field, StrCat(count, " credits are not within ", least, " .. ",
                        kMaxCredits - credits_, ": so many more can be granted"));
    }
    credits_ += count;
    return absl::OkStatus();
  }

  absl::Status Begin(const v1::ConverseRequest::Turn& turn) {
    turn_ = turn;
    delivered_end_.reset();
    GenerateRequest request;
    const absl::Status status = Guarded([&] { return Submit(request); });
    if (status.ok()) return status;
    services_.engine.RecordRefusal(request, status);
    return ErrorOfTurn(status, *open_, turn_);
  }

  // Fills `request` as far as it comes.
  absl::Status Submit(GenerateRequest& request) {
    request.session = session_;
    // The first turn comes with the call.
    if (std::exchange(began_, true))
      MNEMON_RETURN_IF_ERROR(services_.admission.Admit(caller_));
    MNEMON_ASSIGN_OR_RETURN(request, FromMessage(TurnOf(*open_, turn_), sampling_));
    request.session = session_;
    request.deadline = caller_.deadline();
    MNEMON_ASSIGN_OR_RETURN(stream_,
                            services_.engine.Generate(request, Notification()));
    return absl::OkStatus();
  }

  absl::Status TakeOutput(Next& next) {
    const TokenChunk chunk = TakeChunk();
    if (!chunk.finished) {
      if (chunk.tokens.empty() && !chunk.progress) return absl::OkStatus();
      next = Next::kWrite;
      Fill(chunk);
      return absl::OkStatus();
    }
    stream_.reset();
    if (std::exchange(interrupted_, false) && absl::IsCancelled(chunk.status)) {
      next = Next::kWrite;
      return AnswerInterrupt(delivered_end_);
    }
    end_ = ErrorOfTurn(chunk.status, *open_, turn_);
    // What came with an error is delivered before it.
    if (!end_.ok() && chunk.tokens.empty() && chunk.text.empty()) return end_;
    next = end_.ok() ? Next::kWrite : Next::kWriteLast;
    Fill(chunk);
    return absl::OkStatus();
  }

  TokenChunk TakeChunk() {
    TokenChunk chunk =
        stream_->Take(std::min<int64_t>(credits_, TokenStream::kCapacity));
    const auto count = static_cast<int64_t>(chunk.tokens.size());
    credits_ -= count;
    if (count > 0) delivered_end_ = chunk.first_index + count;
    // The session has changed, whether its caller hears of that or not.
    if (chunk.finished && chunk.status.ok()) caller_.progress().AddDelivered();
    return chunk;
  }

  void Fill(const TokenChunk& chunk) {
    response_.Clear();
    output_.Fill(chunk, scope_.session, model_, caller_.progress(),
                 *response_.mutable_output());
  }

  // `tokens`: in the history behind the turn; absent: none was delivered, or none ran.
  absl::Status AnswerInterrupt(std::optional<int64_t> tokens) {
    if (!tokens) {
      MNEMON_ASSIGN_OR_RETURN(const SessionFacts facts,
                              services_.engine.GetSession(session_));
      tokens = facts.position;
    }
    response_.Clear();
    response_.mutable_interrupted()->set_token_count(*tokens);
    return absl::OkStatus();
  }

  // Tokens wait, and the caller takes none.
  bool starved() const {
    return stream_ && !interrupted_ && credits_ == 0 && stream_->waiting() > 0;
  }

  void NoteWait() {
    if (stream_) {
      open_call_->TakeMessage();
    } else {
      open_call_->AwaitMessage();
    }
    if (starved()) {
      open_call_->AwaitCredits();
    } else {
      open_call_->TakeCredits();
    }
  }

  // The caller listens: it gets what waits, within its credits, before the status.
  void EndByServer(const absl::Status& status) {
    bool filled = false;
    const absl::Status taken = Guarded([&] {
      const TokenChunk chunk = TakeChunk();
      filled = !chunk.tokens.empty() || (chunk.finished && chunk.status.ok());
      if (filled) Fill(chunk);
      return absl::OkStatus();
    });
    if (!taken.ok()) return End(taken);
    return filled ? EndAfterWrite(status) : End(status);
  }

  void EndAfterWrite(const absl::Status& status) {
    Leave();
    open_call_->AwaitTransport();
    writer_.WriteLast(response_, status, scope_);
  }

  void End(const absl::Status& status) override {
    Leave();
    open_call_->AwaitTransport();
    writer_.Finish(status, scope_);
  }

  void Leave() {
    if (stream_) {
      stream_->Cancel();
      // The session keeps what was taken, also where no memory was left to write it.
      if (stream_->delivered() > 0) caller_.progress().AddDelivered();
    }
    if (!own_session_ || session_.empty()) return;
    // Where memory has run out it expires.
    (void)Guarded([&] { return services_.engine.DeleteSession(session_); });
  }

  RequestReader<v1::ConverseRequest>& reader_;
  ResponseWriter<v1::ConverseResponse>& writer_;
  std::atomic<Read> read_ = Read::kIdle;
  std::optional<v1::ConverseRequest::Open> open_;
  RequestScope scope_;
  std::string session_;  // id
  bool own_session_ = false;
  std::string model_;                    // resource name
  RequestedSampling sampling_;           // of the model
  int64_t credits_ = 0;                  // tokens that may still be sent
  v1::ConverseRequest::Turn turn_;       // the newest
  bool began_ = false;                   // there was one
  std::shared_ptr<TokenStream> stream_;  // of the turn that runs
  GenerationOutput output_;
  std::optional<int64_t> delivered_end_;  // index behind its last delivered one
  bool interrupted_ = false;              // its end is awaited, to answer that
  bool closed_ = false;                   // the caller has sent all
  bool ended_by_close_ = false;           // the stream, for that
  absl::Status end_;                      // of the stream, behind response_
  v1::ConverseRequest request_;
  v1::ConverseResponse response_;
};

}  // namespace

std::unique_ptr<StreamHandler> MakeConverseHandler(
    const CallServices& services, Caller& caller,
    RequestReader<v1::ConverseRequest>& reader,
    ResponseWriter<v1::ConverseResponse>& writer) {
  return std::make_unique<ConverseHandler>(services, caller, reader, writer);
}

}  // namespace mnemon
