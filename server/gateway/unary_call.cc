// SPDX-License-Identifier: MIT
#include "server/gateway/unary_call.h"

#include <utility>

namespace mnemon {

void UnaryCall::Answer(const absl::Status& status, const RequestScope& scope) {
  const std::shared_ptr<UnaryCall> self = std::move(self_);
  const absl::Status end = PublicStatus(status, scope, &progress());
  if (end.ok()) progress().AddSentBytes(response_bytes());
  progress().End(end.code());
  try {
    post_([self, end] {
      self->Over();
      self->Done(end);
    });
  } catch (const std::bad_alloc&) {
    // Nobody holds the call of the API any more: it breaks off.
    Over();
  }
}

void UnaryCall::Over() {
  EndRecord();
  if (const auto events = std::exchange(events_, nullptr)) events->OnDone();
}

}  // namespace mnemon
