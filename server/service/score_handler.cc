// SPDX-License-Identifier: MIT

#include "base/error.h"
#include "base/status_macros.h"
#include "server/service/messages/messages.h"
#include "server/service/serialized_handler.h"

namespace mnemon {
namespace {

class ScoreHandler final : public WritingHandler<v1::ScoreResponse> {
 public:
  ScoreHandler(const CallServices& services, Caller& caller,
               RequestReader<v1::ScoreRequest>& reader,
               ResponseWriter<v1::ScoreResponse>& writer)
      : WritingHandler(services, caller, writer), reader_(reader) {
    gone_first_ = true;
  }

 private:
  absl::StatusOr<Next> Work(bool may_wait) override {
    if (std::exchange(asked_, false)) call_->close();
    if (call_) {
      const TokenChunk chunk = Take();
      // Scores that came with an error are delivered before it.
      if (chunk.logprobs.empty()) MNEMON_RETURN_IF_ERROR(chunk.status);
      Fill(chunk);
      end_ = chunk.status;
      if (chunk.finished) return Next::kWriteLast;
      if (!chunk.logprobs.empty()) return Next::kWrite;
    }
    // The parts so far are answered: on to the next one.
    while (awaited_ == 0) {
      switch (read_.load()) {
        case Read::kIdle:
          if (closed_) return Next::kWait;
          read_ = Read::kInFlight;
          reader_.Read(request_);
          return Next::kWait;
        case Read::kInFlight:
          return Next::kWait;
        case Read::kMessage:
          // It looks for the session.
          if (!may_wait && !call_) return Next::kApart;
          read_ = Read::kIdle;
          MNEMON_RETURN_IF_ERROR(TakeMessage());
          break;
        case Read::kEnd:
          read_ = Read::kIdle;
          closed_ = true;
          if (!call_) return NotOpened();
          if (!commit_) {
            call_->close();
            return Next::kWait;
          }
          // A lost stream looks the same until gRPC reports its cancellation, but takes
          // no message any more.
          response_.Clear();
          asked_ = true;
          return Next::kWrite;
      }
    }
    return Next::kWait;
  }

  absl::Status TakeMessage() {
    if (request_.has_open()) {
      if (call_) return OpenedTwice();
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
    services_.RecordNames(caller_,
                          ParseOptionalSession(open.session(), "session").value_or(""),
                          ParseOptionalModel(open.model(), "model").value_or(""));
    commit_ = open.commit();
    MNEMON_ASSIGN_OR_RETURN(ScoreRequest request, FromMessage(open));
    request.deadline = caller_.deadline();
    MNEMON_ASSIGN_OR_RETURN(call_, services_.engine.Score(request, Notification()));
    stream_ = call_->stream;
    gone_first_ = false;
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

  bool TakeRest(absl::Status& status) override {
    const TokenChunk chunk = Take();
    if (chunk.finished) status = chunk.status;  // it has ended by itself
    Fill(chunk);
    return status.ok() || !chunk.logprobs.empty();
  }

  RequestReader<v1::ScoreRequest>& reader_;
  std::optional<ScoreCall> call_;
  bool commit_ = false;
  bool closed_ = false;  // the caller has sent all
  bool asked_ = false;   // whether the caller is there to have it committed
  int64_t awaited_ = 0;  // tokens of the parts so far that were not scored yet
  int64_t scored_ = 0;
  double logprob_sum_ = 0;
  v1::ScoreRequest request_;
};

}  // namespace

std::unique_ptr<StreamHandler> MakeScoreHandler(
    const CallServices& services, Caller& caller,
    RequestReader<v1::ScoreRequest>& reader,
    ResponseWriter<v1::ScoreResponse>& writer) {
  return std::make_unique<ScoreHandler>(services, caller, reader, writer);
}

}  // namespace mnemon
