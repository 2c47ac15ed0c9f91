// SPDX-License-Identifier: MIT
#include "client/stream_progress.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace mnemon::client {

StreamProgress::StreamProgress(v1::GenerateRequest request)
    : original_(std::move(request)), next_(original_) {
  if (ByHand()) last_index_ = original_.resume_after_index();
}

absl::Status StreamProgress::Take(const v1::GenerateResponse& message) {
  begun_ = true;
  if (message.tokens().empty()) return absl::OkStatus();
  if (last_index_ >= 0 && message.first_index() != last_index_ + 1) {
    return absl::DataLossError(StrCat("the stream went on with token ",
                                      message.first_index(), " after token ",
                                      last_index_));
  }
  received_ += message.tokens_size();
  last_index_ = message.first_index() + message.tokens_size() - 1;
  return absl::OkStatus();
}

absl::Status StreamProgress::Ended(const absl::Status& error,
                                   const std::string& why) const {
  if (received_ == 0) return error;
  ErrorDetail detail = GetErrorDetail(error).value_or(ErrorDetail{});
  detail.metadata["received_token_count"] = StrCat(received_);
  return MakeError(error.code(),
                   StrCat(received_, " tokens came, the last one of index ",
                          last_index_, ", but ", why, ": ", error.message()),
                   std::move(detail));
}

absl::Status StreamProgress::GoOn(const absl::Status& error) {
  if (original_.session().empty() || original_.request_id().empty()) return error;
  const std::optional<ErrorDetail> detail = GetErrorDetail(error);
  const bool first = !std::exchange(lost_, true);
  if (absl::IsNotFound(error) && next_.has_resume_after_index() && !first) {
    if (received_ > 0) {
      return Ended(error, "the server has forgotten the call");
    }
    // The server rejected the prompt, or lost it in a crash.
    if (ByHand() || !detail || detail->reason != "REQUEST_UNKNOWN") return error;
    next_ = original_;
    begun_ = false;
    return absl::OkStatus();
  }
  bool again = absl::IsUnavailable(error);
  if (detail && detail->retry_after) {
    // A refusal of the first try is for the caller to judge. Later ones, such as
    // SESSION_BUSY while the server believes the lost stream alive, are part of
    // resuming.
    again = again || begun_ || !first || detail->metadata.contains("prompt_taken");
  }
  if (!again) return error;
  if (begun_ && !ByHand()) {
    next_.Clear();
    next_.set_session(original_.session());
    next_.set_request_id(original_.request_id());
  }
  if (begun_) next_.set_resume_after_index(last_index_);
  return absl::OkStatus();
}

}  // namespace mnemon::client
