// SPDX-License-Identifier: MIT
#include "server/rpc/call_context.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <random>
#include <utility>

#include <grpc/grpc.h>

#include "absl/strings/str_format.h"
#include "base/error.h"

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

RpcCall::RpcCall(std::string method, std::shared_ptr<const Connection> connection)
    : start_(std::chrono::steady_clock::now()),
      connection_(std::move(connection)),
      record_{.method = std::move(method)} {}

std::string RpcCall::request_id() const {
  std::lock_guard lock(mutex_);
  return record_.request_id;
}

bool RpcCall::delivered() const {
  std::lock_guard lock(mutex_);
  return delivered_;
}

RpcRecord RpcCall::TakeRecord() {
  std::lock_guard lock(mutex_);
  return std::exchange(record_, {});
}

void RpcCall::SetRequestId(std::string id) {
  std::lock_guard lock(mutex_);
  record_.request_id = std::move(id);
}

void RpcCall::SetModel(const std::string& name) {
  std::lock_guard lock(mutex_);
  record_.model = name;
}

void RpcCall::SetSession(const std::string& id) {
  std::lock_guard lock(mutex_);
  record_.session = id;
}

void RpcCall::SetReason(const std::string& reason) {
  std::lock_guard lock(mutex_);
  record_.reason = reason;
}

void RpcCall::SetNoReactor() {
  std::lock_guard lock(mutex_);
  no_reactor_ = true;
}

bool RpcCall::no_reactor() const {
  std::lock_guard lock(mutex_);
  return no_reactor_;
}

void RpcCall::SetQueueTime(std::chrono::nanoseconds time) {
  std::lock_guard lock(mutex_);
  record_.queue_time = time;
}

void RpcCall::AddPromptTokens(int64_t count) {
  std::lock_guard lock(mutex_);
  record_.prompt_tokens += count;
}

void RpcCall::AddDelivered() {
  std::lock_guard lock(mutex_);
  delivered_ = true;
}

void RpcCall::AddGeneratedTokens(int64_t count) {
  std::lock_guard lock(mutex_);
  if (count == 0) return;
  delivered_ = true;
  record_.generated_tokens += count;
  if (!record_.first_token) {
    record_.first_token = std::chrono::steady_clock::now() - start_;
  }
}

void RpcCall::AddSentBytes(int64_t bytes) {
  std::lock_guard lock(mutex_);
  record_.sent_bytes += bytes;
}

void RpcCall::AddReceivedBytes(int64_t bytes) {
  std::lock_guard lock(mutex_);
  record_.received_bytes += bytes;
}

void RpcCall::End(absl::StatusCode code) {
  std::lock_guard lock(mutex_);
  if (record_.status) return;
  record_.status = code;
  record_.total = std::chrono::steady_clock::now() - start_;
}

void RpcCall::ReplaceEnd(absl::StatusCode code, std::string reason) {
  std::lock_guard lock(mutex_);
  if (!record_.status) return;
  record_.status = code;
  record_.reason = std::move(reason);
  record_.total = std::chrono::steady_clock::now() - start_;
}

std::function<void(const absl::Status&)> CancelFunctionOf(
    grpc::CallbackServerContext& context) {
  // Of gRPC's core: the context, and with it TryCancel, may be gone when the function
  // is called.
  grpc_call_ref(context.c_call());
  std::shared_ptr<grpc_call> transport(context.c_call(), grpc_call_unref);
  return [transport = std::move(transport),
          record = CallOf(&context)->shared_from_this()](const absl::Status& status) {
    record->ReplaceEnd(status.code(),
                       GetErrorDetail(status).value_or(ErrorDetail{}).reason);
    grpc_call_cancel_with_status(transport.get(),
                                 static_cast<grpc_status_code>(status.code()),
                                 std::string(status.message()).c_str(), nullptr);
  };
}

}  // namespace mnemon
