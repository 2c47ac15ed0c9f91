// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/service/messages/messages.h"
#include "server/service/serialized_handler.h"

namespace mnemon {
namespace {

// That a caller may have granted and not used.
constexpr int64_t kMaxCredits = std::numeric_limits<int32_t>::max();

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

class ConverseHandler final : public WritingHandler<v1::ConverseResponse> {
 public:
  ConverseHandler(const CallServices& services, Caller& caller,
                  RequestReader<v1::ConverseRequest>& reader,
                  ResponseWriter<v1::ConverseResponse>& writer)
      : WritingHandler(services, caller, writer), reader_(reader) {}

 private:
  absl::StatusOr<Next> Work(bool may_wait) override {
    MNEMON_ASSIGN_OR_RETURN(Next next, TakeMessages(may_wait));
    if (next == Next::kWait && stream_) {
      MNEMON_ASSIGN_OR_RETURN(next, TakeOutput());
    }
    if (next != Next::kWait || !closed_) return next;
    gone_first_ = !stream_ || starved();
    if (starved()) return NoCredits();
    return stream_ ? Next::kWait : Next::kEnd;
  }

  absl::StatusOr<Next> TakeMessages(bool may_wait) {
    while (!interrupted_) {
      switch (read_.load()) {
        case Read::kIdle:
          if (closed_) return Next::kWait;
          read_ = Read::kInFlight;
          reader_.Read(request_);
          return Next::kWait;
        case Read::kInFlight:
          return Next::kWait;
        case Read::kMessage: {
          // It looks for the session.
          if (!may_wait && !stream_ && !request_.has_credits()) return Next::kApart;
          read_ = Read::kIdle;
          MNEMON_ASSIGN_OR_RETURN(const Next next, TakeMessage());
          if (next != Next::kWait) return next;
          break;
        }
        case Read::kEnd:
          read_ = Read::kIdle;
          closed_ = true;
          gone_first_ = !open_;
          if (!open_) return NotOpened();
          return Next::kWait;
      }
    }
    return Next::kWait;
  }

  absl::StatusOr<Next> TakeMessage() {
    using Message = v1::ConverseRequest;
    if (!open_ && !request_.has_open()) return NotOpened();
    switch (request_.request_case()) {
      case Message::kOpen:
        if (open_) return OpenedTwice();
        MNEMON_RETURN_IF_ERROR(TakeOpen(request_.open()));
        return Next::kWrite;
      case Message::kTurn:
        if (stream_) return TurnRunning();
        MNEMON_RETURN_IF_ERROR(Begin(request_.turn()));
        return Next::kWait;
      case Message::kCredits:
        MNEMON_RETURN_IF_ERROR(AddCredits(request_.credits().token_count(), /*least=*/1,
                                          "credits.token_count"));
        return Next::kWait;
      case Message::kInterrupt:
        if (!stream_) return AnswerInterrupt(std::nullopt);
        stream_->Cancel(CancelKind::kEnd);
        interrupted_ = true;
        return Next::kWait;
      case Message::REQUEST_NOT_SET:
        break;
    }
    return InvalidField("request", "the message holds nothing");
  }

  absl::Status TakeOpen(const v1::ConverseRequest::Open& open) {
    open_.emplace(open);
    scope_ = {.session = open.session(), .model = open.model()};
    const absl::Status status = FindSession();
    if (!status.ok()) return ErrorOfTurn(status, open, {});
    return AddCredits(open.credit_token_count(), /*least=*/0,
                      "open.credit_token_count");
  }

  absl::Status FindSession() {
    services_.RecordNames(
        caller_, ParseOptionalSession(open_->session(), "session").value_or(""),
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

  absl::StatusOr<Next> TakeOutput() {
    const TokenChunk chunk = TakeWithinCredits();
    if (!chunk.finished) {
      if (chunk.tokens.empty() && !chunk.progress) return Next::kWait;
      Fill(chunk);
      return Next::kWrite;
    }
    stream_.reset();
    if (std::exchange(interrupted_, false) && absl::IsCancelled(chunk.status)) {
      return AnswerInterrupt(delivered_end_);
    }
    end_ = ErrorOfTurn(chunk.status, *open_, turn_);
    // What came with an error is delivered before it.
    if (chunk.tokens.empty() && chunk.text.empty()) MNEMON_RETURN_IF_ERROR(end_);
    Fill(chunk);
    return end_.ok() ? Next::kWrite : Next::kWriteLast;
  }

  TokenChunk TakeWithinCredits() {
    TokenChunk chunk = Take(std::min<int64_t>(credits_, TokenStream::kCapacity));
    const auto count = static_cast<int64_t>(chunk.tokens.size());
    credits_ -= count;
    if (count > 0) delivered_end_ = chunk.first_index + count;
    return chunk;
  }

  void Fill(const TokenChunk& chunk) {
    response_.Clear();
    ToMessage(chunk, scope_.session, model_, *response_.mutable_output());
    RecordOutput(chunk);
  }

  // `tokens`: in the history after the turn; absent: none was delivered, or none ran.
  absl::StatusOr<Next> AnswerInterrupt(std::optional<int64_t> tokens) {
    if (!tokens) {
      MNEMON_ASSIGN_OR_RETURN(const SessionFacts facts,
                              services_.engine.GetSession(session_));
      tokens = facts.position;
    }
    response_.Clear();
    response_.mutable_interrupted()->set_token_count(*tokens);
    return Next::kWrite;
  }

  // Tokens wait, and the caller takes none.
  bool starved() const {
    return stream_ && !interrupted_ && credits_ == 0 && stream_->waiting() > 0;
  }

  void NoteWait() override {
    stream_ ? open_call_->TakeMessage() : open_call_->AwaitMessage();
    starved() ? open_call_->AwaitCredits() : open_call_->TakeCredits();
  }

  bool TakeRest(absl::Status&) override {
    const TokenChunk chunk = TakeWithinCredits();
    const bool filled = !chunk.tokens.empty() || (chunk.finished && chunk.status.ok());
    if (filled) Fill(chunk);
    return filled;
  }

  void Leave() override {
    SerializedHandler::Leave();
    if (!own_session_ || session_.empty()) return;
    // If memory has run out it expires.
    (void)Guarded([&] { return services_.engine.DeleteSession(session_); });
  }

  RequestReader<v1::ConverseRequest>& reader_;
  std::optional<v1::ConverseRequest::Open> open_;
  std::string session_;  // id
  bool own_session_ = false;
  std::string model_;                     // resource name
  RequestedSampling sampling_;            // of the model
  int64_t credits_ = 0;                   // tokens that may still be sent
  v1::ConverseRequest::Turn turn_;        // the newest
  bool began_ = false;                    // there was one
  std::optional<int64_t> delivered_end_;  // index after its last delivered token
  bool interrupted_ = false;              // its end is awaited, to answer that
  bool closed_ = false;                   // the caller has sent all
  v1::ConverseRequest request_;
};

}  // namespace

std::unique_ptr<StreamHandler> MakeConverseHandler(
    const CallServices& services, Caller& caller,
    RequestReader<v1::ConverseRequest>& reader,
    ResponseWriter<v1::ConverseResponse>& writer) {
  return std::make_unique<ConverseHandler>(services, caller, reader, writer);
}

}  // namespace mnemon
