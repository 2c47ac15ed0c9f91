// SPDX-License-Identifier: MIT
// The begins and ends of calls: the log line and the metrics of each.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "server/service/access_record.h"
#include "server/service/call_progress.h"

namespace mnemon {

// Safe for concurrent use.
class AccessLog {
 public:
  // `observer`: may be null.
  explicit AccessLog(std::shared_ptr<CallObserver> observer)
      : observer_(std::move(observer)) {}

  void Begin(const std::string& method) const {
    if (observer_ != nullptr) observer_->OnCallStarted(method);
  }
  // Of a call that is over. Its status is CANCELLED where it has none.
  AccessRecord End(CallProgress& progress, LogLevel level = LogLevel::kInfo) const {
    progress.End(absl::StatusCode::kCancelled);
    AccessRecord record = progress.TakeRecord();
    LogCall(level, record);
    if (observer_ != nullptr) observer_->OnCallEnded(record);
    return record;
  }

 private:
  const std::shared_ptr<CallObserver> observer_;
};

}  // namespace mnemon
