// SPDX-License-Identifier: MIT
#include "server/service/call_progress.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <random>
#include <utility>

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

}  // namespace

std::string ChooseRequestId(std::string_view sent) {
  const bool usable = !sent.empty() && sent.size() <= kMaxRequestId &&
                      std::all_of(sent.begin(), sent.end(), [](unsigned char c) {
                        return std::isalnum(c) || c == '-' || c == '_' || c == '.';
                      });
  return usable ? std::string(sent) : NextId();
}

CallProgress::CallProgress(std::string method)
    : start_(std::chrono::steady_clock::now()), record_{.method = std::move(method)} {}

std::string CallProgress::request_id() const {
  std::lock_guard lock(mutex_);
  return record_.request_id;
}

bool CallProgress::delivered() const {
  std::lock_guard lock(mutex_);
  return delivered_;
}

AccessRecord CallProgress::TakeRecord() {
  std::lock_guard lock(mutex_);
  return std::exchange(record_, {});
}

void CallProgress::SetRequestId(std::string id) {
  std::lock_guard lock(mutex_);
  record_.request_id = std::move(id);
}

void CallProgress::SetModel(const std::string& name) {
  std::lock_guard lock(mutex_);
  record_.model = name;
}

void CallProgress::SetSession(const std::string& id) {
  std::lock_guard lock(mutex_);
  record_.session = id;
}

void CallProgress::SetReason(const std::string& reason) {
  std::lock_guard lock(mutex_);
  record_.reason = reason;
}

void CallProgress::SetQueueTime(std::chrono::nanoseconds time) {
  std::lock_guard lock(mutex_);
  record_.queue_time = time;
}

void CallProgress::AddPromptTokens(int64_t count) {
  std::lock_guard lock(mutex_);
  record_.prompt_tokens += count;
}

void CallProgress::AddDelivered() {
  std::lock_guard lock(mutex_);
  delivered_ = true;
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

void CallProgress::AddSentBytes(int64_t bytes) {
  std::lock_guard lock(mutex_);
  record_.sent_bytes += bytes;
}

void CallProgress::AddReceivedBytes(int64_t bytes) {
  std::lock_guard lock(mutex_);
  record_.received_bytes += bytes;
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

}  // namespace mnemon
