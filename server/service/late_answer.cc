// SPDX-License-Identifier: MIT
#include "server/service/late_answer.h"

namespace mnemon {

std::shared_ptr<LateAnswer> LateAnswer::Open(UnaryCaller& caller,
                                             const RequestScope& scope,
                                             OpenCalls& calls) {
  const std::shared_ptr<LateAnswer> answer(new LateAnswer(caller, scope, calls));
  std::shared_ptr<OpenCall> open = calls.Add(
      [weak = std::weak_ptr(answer)](const absl::Status& status) {
        if (const auto open = weak.lock()) open->Finish([&] { return status; });
      },
      caller.CancelFunction(), /*connection=*/nullptr);
  {
    std::lock_guard lock(answer->mutex_);
    if (!answer->closed_) {
      answer->open_ = std::move(open);
      return answer;
    }
  }
  // It was stopped meanwhile.
  calls.Remove(open);
  return answer;
}

bool LateAnswer::Enter() {
  std::lock_guard lock(mutex_);
  return beginning_ = !answered_;
}

void LateAnswer::Leave() {
  std::optional<absl::Status> end;
  {
    std::lock_guard lock(mutex_);
    beginning_ = false;
    end = std::move(end_);
  }
  if (end) FinishWith(*end);
}

void LateAnswer::FinishWith(const absl::Status& status) {
  std::shared_ptr<OpenCall> open;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    if (beginning_) {
      end_ = status;
      return;
    }
    open = std::move(open_);
  }
  // Before the call ends: then the server, and `calls_`, may.
  if (open != nullptr) calls_.Remove(open);
  caller_.Answer(status, scope_);
}

}  // namespace mnemon
