// SPDX-License-Identifier: MIT
#include "client/load/load_figures.h"

#include <chrono>

#include "base/error.h"

namespace mnemon::client {

bool IsRefusal(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return false;
  const auto detail = GetErrorDetail(status);
  return detail && detail->retry_after;
}

void LoadFigures::AddCompleted(const CallTimes& times, const GenerateResult& result) {
  ++completed_;
  if (Meets(times, limits_)) ++good_;
  generated_tokens_ += result.generated_tokens;
  prompt_tokens_ += result.prompt_tokens;
  resumed_tokens_ += result.resumed_tokens;
  if (times.ttft()) ttft_.Add(*times.ttft());
  if (times.tpot()) tpot_.Add(*times.tpot());
  e2e_.Add(times.e2e());
  queue_.Add(std::chrono::duration<double>(result.queue_time).count());
}

void LoadFigures::AddFailed(const absl::Status& status) {
  constexpr size_t kKinds = 32;        // the server is not trusted
  constexpr size_t kReasonBytes = 63;  // as base/error.h has it
  ++(IsRefusal(status) ? refused_ : failed_);
  const auto detail = GetErrorDetail(status);
  std::pair<std::string, std::string> kind(
      absl::StatusCodeToString(status.code()),
      detail ? detail->reason.substr(0, kReasonBytes) : "");
  if (errors_.size() >= kKinds && !errors_.contains(kind)) kind = {"OTHER", ""};
  ++errors_[kind];
}

void LoadFigures::AddGaps(std::span<const float> seconds) {
  for (const float gap : seconds) itl_.Add(gap);
}

}  // namespace mnemon::client
