// SPDX-License-Identifier: MIT
#include "server/service/serialized_handler.h"

#include "base/error.h"
#include "base/status_macros.h"

namespace mnemon {

void SerializedHandler::Start() {
  Open();
  const absl::Status admitted =
      Guarded([&] { return services_.admission.Admit(caller_); });
  if (!admitted.ok()) return End(admitted);
  open_call_->AwaitMessage();
  Advance(/*may_wait=*/false);
}

void SerializedHandler::Open() {
  open_call_ = services_.calls.Add(
      [this, holder = holder_](const absl::Status& status) {
        if (holder->AcquireToStop(status)) Advance(/*may_wait=*/false);
      },
      caller_.CancelFunction(), caller_.connection());
}

void SerializedHandler::OnRead(bool message) {
  open_call_->TakeMessage();
  read_ = message ? Read::kMessage : Read::kEnd;
  if (holder_->Acquire()) Advance(/*may_wait=*/false);
}

void SerializedHandler::OnWritten(bool taken) {
  open_call_->ResumeFromTransport();
  if (!taken) holder_->AcquireToStop(EndOfCaller(caller_));
  Advance(/*may_wait=*/false);
}

void SerializedHandler::OnGone() {
  if (holder_->AcquireToStop(EndOfCaller(caller_))) Advance(/*may_wait=*/false);
}

void SerializedHandler::OnDone() {
  if (gone_first_ && caller_.gone()) {
    caller_.progress().ReplaceEnd(EndOfCaller(caller_).code(), "");
  }
  services_.calls.Remove(open_call_);
}

void SerializedHandler::AdvanceApart() {
  services_.handlers.Run([this](const absl::Status& turn) {
    turn.ok() ? Advance(/*may_wait=*/true) : End(turn);
  });
}

void SerializedHandler::Advance(bool may_wait) {
  do {
    if (const std::optional<absl::Status> stop = holder_->stop()) {
      return stream_ && absl::IsUnavailable(*stop) ? EndByServer(*stop) : End(*stop);
    }
    Next next = Next::kWait;
    const absl::Status status = Guarded([&]() -> absl::Status {
      MNEMON_ASSIGN_OR_RETURN(next, Work(may_wait));
      if (next != Next::kApart) return absl::OkStatus();
      open_call_->TakeMessage();
      AdvanceApart();
      return absl::OkStatus();
    });
    if (!status.ok()) return End(status);
    switch (next) {
      case Next::kWait:
        NoteWait();
        break;
      case Next::kApart:
        return;
      case Next::kWrite:
        open_call_->TakeCredits();
        holder_->PassOn();
        open_call_->AwaitTransport();
        return Write();
      case Next::kWriteLast:
        return EndAfterWrite(end_);
      case Next::kEnd:
        return End(absl::OkStatus());
    }
  } while (!holder_->Release());
}

// The caller listens: it gets what waits before the status.
void SerializedHandler::EndByServer(absl::Status status) {
  bool filled = false;
  const absl::Status taken = Guarded([&] { filled = TakeRest(status); });
  if (!taken.ok()) return End(taken);
  filled ? EndAfterWrite(status) : End(status);
}

void SerializedHandler::EndAfterWrite(const absl::Status& status) {
  Leave();
  open_call_->AwaitTransport();
  WriteLast(status);
}

void SerializedHandler::End(const absl::Status& status) {
  Leave();
  open_call_->AwaitTransport();
  door_.Finish(status, scope_);
}

void SerializedHandler::Leave() {
  if (!stream_) return;
  stream_->Cancel();
  // The session keeps what was taken, even if no memory was left to write it.
  if (stream_->delivered() > 0) caller_.progress().AddDelivered();
}

absl::Status SerializedHandler::NotOpened() {
  return InvalidField("open", "the first message must hold open");
}

absl::Status SerializedHandler::OpenedTwice() {
  return InvalidField("open", "only the first message holds open");
}

TokenChunk SerializedHandler::Take(int64_t most) {
  TokenChunk chunk = stream_->Take(most);
  // The session may have changed, whether its caller hears of that or not.
  if (chunk.finished && chunk.status.ok()) caller_.progress().AddDelivered();
  return chunk;
}

void SerializedHandler::RecordOutput(const TokenChunk& chunk) {
  if (chunk.start) {
    caller_.progress().SetQueueTime(chunk.start->queue_time);
    caller_.progress().AddPromptTokens(chunk.start->prompt_tokens);
  }
  caller_.progress().AddGeneratedTokens(static_cast<int64_t>(chunk.tokens.size()));
}

}  // namespace mnemon
