// SPDX-License-Identifier: MIT
#include "server/requests/observer.h"

#include <utility>

namespace mnemon {

RequestTimer::RequestTimer(std::shared_ptr<EngineObserver> observer, const Clock& clock,
                           size_t model)
    : observer_(std::move(observer)), clock_(&clock), model_(model) {
  taken_ = admitted_ = Now();
}

void RequestTimer::Admitted(const StartFacts& facts) {
  if (!observer_) return;
  admitted_ = Now();
  observer_->OnAdmitted(model_, facts, admitted_ - taken_);
}

void RequestTimer::Token(Time now) {
  if (!observer_) return;
  if (first_token_) {
    observer_->OnNextToken(model_, now - last_token_);
  } else {
    first_token_ = now;
    observer_->OnFirstToken(model_, now - taken_, now - admitted_);
  }
  last_token_ = now;
}

void RequestTimer::Ended(const absl::Status& status,
                         const std::optional<FinishFacts>& finish) {
  if (!observer_) return;
  RequestEnd end{
      .status = status, .finish = finish ? &*finish : nullptr, .total = Now() - taken_};
  if (first_token_ && last_token_ > *first_token_) {
    end.decode = last_token_ - *first_token_;
  }
  observer_->OnEnded(model_, end);
}

}  // namespace mnemon
