// SPDX-License-Identifier: MIT
#include "server/service/access_record.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <new>
#include <random>
#include <vector>

#include "absl/strings/str_format.h"

namespace mnemon {
namespace {

constexpr size_t kMaxRequestId = 64;

// Distinct within this process; two processes differ with high probability.
std::string NextId() {
  static const uint64_t start = [] {
    std::random_device device;
    return (uint64_t{device()} << 32) | device();
  }();
  static std::atomic<uint64_t> count{0};
  // Odd multiplier: distinct counts give distinct ids.
  const uint64_t id =
      start + count.fetch_add(1, std::memory_order_relaxed) * 0x9e3779b97f4a7c15;
  return absl::StrFormat("%016x", id);
}

double Milliseconds(AccessRecord::Seconds time) { return time.count() * 1000; }

constexpr size_t kMostFields = 13;

// Fields that do not apply are left out.
std::vector<LogField> FieldsOf(const AccessRecord& call) {
  std::vector<LogField> fields;
  // Growth would copy fields: base/log.h.
  fields.reserve(kMostFields);
  fields.push_back({"request_id", call.request_id});
  fields.push_back({"method", call.method});
  fields.push_back({"status", StatusName(call)});
  if (!call.reason.empty()) fields.push_back({"reason", call.reason});
  if (!call.model.empty()) fields.push_back({"model", call.model});
  if (!call.session.empty()) fields.push_back({"session", call.session});
  if (call.prompt_tokens > 0) fields.push_back({"prompt_tokens", call.prompt_tokens});
  if (call.first_token) fields.push_back({"generated_tokens", call.generated_tokens});
  if (call.queue_time) fields.push_back({"queue_ms", Milliseconds(*call.queue_time)});
  if (call.first_token) {
    fields.push_back({"first_token_ms", Milliseconds(*call.first_token)});
  }
  fields.push_back({"ms", Milliseconds(call.total)});
  fields.push_back({"received_bytes", call.received_bytes});
  fields.push_back({"sent_bytes", call.sent_bytes});
  return fields;
}

}  // namespace

std::string ChooseRequestId(std::string_view sent) {
  const bool usable = !sent.empty() && sent.size() <= kMaxRequestId &&
                      std::all_of(sent.begin(), sent.end(), [](unsigned char c) {
                        return std::isalnum(c) || c == '-' || c == '_' || c == '.';
                      });
  return usable ? std::string(sent) : NextId();
}

void CallProgress::AddGeneratedTokens(int64_t count) {
  std::lock_guard lock(mutex_);
  if (count == 0) return;
  delivered_ = true;
  record_.generated_tokens += count;
  if (!record_.first_token) {
    record_.first_token = std::chrono::steady_clock::now() - start_;
  }
}

void CallProgress::End(absl::StatusCode code) {
  std::lock_guard lock(mutex_);
  if (record_.status) return;
  record_.status = code;
  record_.total = std::chrono::steady_clock::now() - start_;
}

void CallProgress::ReplaceEnd(absl::StatusCode code, std::string reason) {
  std::lock_guard lock(mutex_);
  if (!record_.status) return;
  record_.status = code;
  record_.reason = std::move(reason);
  record_.total = std::chrono::steady_clock::now() - start_;
}

void LogCall(LogLevel level, const AccessRecord& call) noexcept try {
  LogEvent(level, "call", FieldsOf(call));
} catch (const std::bad_alloc&) {
  // The line is lost, the server goes on.
}

AccessRecord AccessLog::End(CallProgress& progress, LogLevel level) const {
  progress.End(absl::StatusCode::kCancelled);
  AccessRecord record = progress.TakeRecord();
  LogCall(level, record);
  if (observer_ != nullptr) observer_->OnCallEnded(record);
  return record;
}

}  // namespace mnemon
