// SPDX-License-Identifier: MIT
// Progress of the stream of one Generate call, over all its tries.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "mnemon/v1/generation.pb.h"

namespace mnemon::client {

// Determines the request after a loss of the stream, so that every token and every
// piece of text comes once and in order. Not safe for concurrent use.
class StreamProgress {
 public:
  // `request` is the caller's; it may itself resume an earlier stream. A call without
  // session or request_id is not resumed.
  explicit StreamProgress(v1::GenerateRequest request);

  // The request to send now.
  const v1::GenerateRequest& request() const { return next_; }
  // Takes a message of the stream. DATA_LOSS unless its tokens follow the earlier ones.
  absl::Status Take(const v1::GenerateResponse& message);
  // Called when the stream ended with `error`. OK: request() resumes it; else the error
  // of the call.
  absl::Status GoOn(const absl::Status& error);

  // `error`, which ends the call, with `why` if tokens came before it.
  absl::Status Ended(const absl::Status& error, const std::string& why) const;

  // Whether this stream continues after what came before the loss.
  bool resumes() const { return lost_ && next_.has_resume_after_index(); }
  // Index of the newest token; if there is none, the caller's resume_after_index, or
  // -1.
  int64_t last_index() const { return last_index_; }

 private:
  bool ByHand() const { return original_.has_resume_after_index(); }

  const v1::GenerateRequest original_;
  v1::GenerateRequest next_;
  bool begun_ = false;
  bool lost_ = false;  // a try has ended early
  int64_t received_ = 0;
  int64_t last_index_ = -1;
};

}  // namespace mnemon::client
