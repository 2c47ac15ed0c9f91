// SPDX-License-Identifier: MIT
#include "server/service/serialized_handler.h"

namespace mnemon {

void SerializedHandler::Open() {
  open_call_ = services_.calls.Add(
      [this, holder = holder_](const absl::Status& status) {
        if (holder->AcquireToStop(status)) Advance(/*may_wait=*/false);
      },
      caller_.CancelFunction(), caller_.connection());
}

void SerializedHandler::OnWritten(bool taken) {
  open_call_->ResumeFromTransport();
  if (!taken) holder_->AcquireToStop(EndOfCaller(caller_));
  Advance(/*may_wait=*/false);
}

void SerializedHandler::OnGone() {
  if (holder_->AcquireToStop(EndOfCaller(caller_))) Advance(/*may_wait=*/false);
}

void SerializedHandler::AdvanceApart() {
  services_.handlers.Run([this](const absl::Status& turn) {
    turn.ok() ? Advance(/*may_wait=*/true) : End(turn);
  });
}

}  // namespace mnemon
