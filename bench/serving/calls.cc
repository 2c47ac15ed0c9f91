// SPDX-License-Identifier: MIT
#include "bench/serving/calls.h"

#include <utility>

#include <grpcpp/alarm.h>

#include "base/error.h"
#include "client/status.h"

namespace mnemon::serving {

// gRPC calls all methods except Cancel, one at a time.
class Calls::Call final : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  Call(Calls& calls, const v1::GenerateRequest& request, const CallOptions& options,
       OnEnd on_end)
      : calls_(calls),
        request_(request),
        on_end_(std::move(on_end)),
        options_(options) {}

  void Start(Connection& connection) {
    record_.trace.begin = SteadyClock::now();
    context_.set_deadline(
        std::chrono::system_clock::now() +
        std::chrono::duration_cast<std::chrono::microseconds>(options_.deadline));
    connection.generation->async()->Generate(&context_, &request_, this);
    Read();
    StartCall();
  }

  void Cancel() {
    cancelled_.store(true, std::memory_order_relaxed);
    context_.TryCancel();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    Note();
    ++reads_;
    if (options_.token_time > Seconds(0) && message_.tokens_size() > 0) {
      left_ = message_.tokens_size();
      AddHold();
      TakeToken();
      return;
    }
    Read();
  }

  void OnDone(const grpc::Status& status) override {
    record_.trace.end = SteadyClock::now();
    record_.trace.status = client::FromGrpcStatus(status);
    if (on_end_) on_end_(record_);
    calls_.OnEnded(this, std::move(record_));
  }

 private:
  void Read() {
    if (options_.read_at_most < 0 || reads_ < options_.read_at_most) {
      StartRead(&message_);
    }
  }

  // One token at a time, so that a cancelled call waits for a single alarm.
  void TakeToken() {
    const auto time =
        std::chrono::duration_cast<std::chrono::microseconds>(options_.token_time);
    // A new alarm each time, because this runs in the callback of the previous one.
    alarm_ = std::make_unique<grpc::Alarm>();
    alarm_->Set(std::chrono::system_clock::now() + time, [this](bool) {
      if (--left_ > 0 && !cancelled_.load(std::memory_order_relaxed)) {
        return TakeToken();
      }
      Read();
      RemoveHold();
    });
  }

  void Note() {
    const TimePoint now = SteadyClock::now();
    calls_.messages_.fetch_add(1, std::memory_order_relaxed);
    if (message_.has_prompt()) record_.prompt_index = message_.prompt().first_index();
    if (message_.tokens().empty()) return;
    if (record_.tokens.empty()) calls_.with_tokens_.fetch_add(1);
    if (record_.next_index >= 0 && message_.first_index() != record_.next_index) {
      record_.contiguous = false;
    }
    record_.next_index = message_.first_index() + message_.tokens_size();
    for (const int32_t token : message_.tokens()) {
      record_.tokens.push_back(token);
      record_.trace.arrivals.push_back(now);
    }
  }

  Calls& calls_;
  const v1::GenerateRequest request_;
  const OnEnd on_end_;
  const CallOptions options_;
  grpc::ClientContext context_;
  v1::GenerateResponse message_;
  CallRecord record_;
  int64_t reads_ = 0;
  std::atomic<bool> cancelled_{false};
  std::unique_ptr<grpc::Alarm> alarm_;  // while a hold exists
  int64_t left_ = 0;                    // tokens of the last message not taken yet
};

std::string CallRecord::reason() const {
  const std::optional<ErrorDetail> detail = GetErrorDetail(trace.status);
  return detail ? detail->reason : "";
}

std::string CallRecord::outcome() const {
  const std::string why = reason();
  return why.empty() ? absl::StatusCodeToString(trace.status.code()) : why;
}

Calls::Calls() = default;

Calls::~Calls() {
  CancelAll();
  Wait(kHangs);
}

void Calls::Start(Connection& connection, const v1::GenerateRequest& request,
                  const CallOptions& options, OnEnd on_end) {
  auto call = std::make_unique<Call>(*this, request, options, std::move(on_end));
  Call* const started = call.get();
  {
    std::lock_guard lock(mutex_);
    calls_.emplace(started, std::move(call));
  }
  started->Start(connection);
}

int64_t Calls::running() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(calls_.size());
}

int64_t Calls::messages() const { return messages_.load(std::memory_order_relaxed); }

int64_t Calls::with_tokens() const { return with_tokens_.load(); }

bool Calls::Wait(Seconds timeout) const {
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, timeout, [&] { return calls_.empty(); });
}

void Calls::CancelAll() {
  std::lock_guard lock(mutex_);
  for (const auto& [call, owned] : calls_) call->Cancel();
}

std::vector<CallRecord> Calls::Take() {
  std::lock_guard lock(mutex_);
  return std::exchange(records_, {});
}

void Calls::OnEnded(Call* call, CallRecord record) {
  std::lock_guard lock(mutex_);
  records_.push_back(std::move(record));
  calls_.erase(call);  // gRPC does not use a reactor after OnDone
  if (calls_.empty()) ended_.notify_all();
}

}  // namespace mnemon::serving
