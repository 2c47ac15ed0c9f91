// SPDX-License-Identifier: MIT
#include "server/admission/admission_queue.h"

#include <algorithm>

namespace mnemon {
namespace {

// Waiting calls are asked for whether they will still be in time that often at most,
// and the first so many of them.
constexpr std::chrono::milliseconds kLateCheck{100};
constexpr int kMostAsked = 64;

}  // namespace

AdmissionQueue::Verdict AdmissionQueue::Enter(AdmissionTicket& ticket,
                                              int64_t prompt_tokens,
                                              int64_t max_tokens) {
  ticket.expected = estimate_.WorkOf(prompt_tokens, max_tokens);
  const Duration run =
      LoadEstimate::kRunMargin * estimate_.RunTime(ticket.expected, Load());
  if (queue_.empty() && PermitFree() && !TooLate(ticket, run)) {
    Start(ticket);
    return Verdict::kStarts;
  }
  if (Full(ticket.input_bytes)) return Verdict::kQueueFull;
  if (TooLate(ticket, run + estimate_.wait_margin() * WaitTime())) {
    return Verdict::kTooLate;
  }
  queue_.splice(queue_.end(), ticket.queue_node);
  ticket.waiting = true;
  ++waiting_;
  waiting_named_ += ticket.named ? 1 : 0;
  waiting_work_ += ticket.expected;
  waiting_bytes_ += ticket.input_bytes;
  return Verdict::kWaits;
}

bool AdmissionQueue::AddInput(AdmissionTicket& ticket, int64_t bytes, int64_t tokens) {
  if (waiting_bytes_ + bytes > options_.queue_bytes) return false;
  const LoadEstimate::Work work = estimate_.WorkOf(tokens, /*max_tokens=*/0);
  ticket.input_bytes += bytes;
  waiting_bytes_ += bytes;
  ticket.expected += work;
  waiting_work_ += work;
  return true;
}

void AdmissionQueue::Leave(AdmissionTicket& ticket) {
  --waiting_;
  waiting_named_ -= ticket.named ? 1 : 0;
  waiting_work_ -= ticket.expected;
  waiting_bytes_ -= ticket.input_bytes;
  ticket.waiting = false;
  ticket.queue_node.splice(ticket.queue_node.end(), queue_, ticket.queue_at);
}

void AdmissionQueue::EndRound(int32_t permits, int32_t named, int64_t stalled,
                              const Running& running,
                              const LoadEstimate::Load& handed) {
  permits_ -= permits;
  permits_named_ -= named;
  lent_ = static_cast<int32_t>(std::min<int64_t>(stalled, permits_));
  lent_ = std::min(lent_, options_.most_lent);
  running_ = running;
  handed_ = handed;
}

void AdmissionQueue::StartWaiting(
    absl::FunctionRef<void(AdmissionTicket&, bool starts)> visit) {
  while (!queue_.empty() && PermitFree()) {
    AdmissionTicket& ticket = *queue_.front();
    Leave(ticket);
    const bool too_late = TooLate(ticket);
    if (ticket.deadline) estimate_.RecordTurn(too_late);
    if (!too_late) Start(ticket);
    visit(ticket, !too_late);
  }
  const Time now = options_.clock->Now();
  if (queue_.empty() || now - late_checked_ < kLateCheck) return;
  late_checked_ = now;
  const LoadEstimate::Load load = Load();
  LoadEstimate::Work before = Before();
  before -= waiting_work_;
  auto next = queue_.begin();
  for (int asked = 0; asked < kMostAsked && next != queue_.end(); ++asked) {
    AdmissionTicket& ticket = **next++;
    const Duration run = estimate_.RunTime(ticket.expected, load);
    if (TooLate(ticket, run + estimate_.WaitTime(before, load))) {
      estimate_.RecordTurn(/*too_late=*/true);
      Leave(ticket);
      visit(ticket, /*starts=*/false);
    } else {
      before += ticket.expected;
    }
  }
}

void AdmissionQueue::Clear(absl::FunctionRef<void(AdmissionTicket&)> visit) {
  while (!queue_.empty()) {
    AdmissionTicket& ticket = *queue_.front();
    Leave(ticket);
    visit(ticket);
  }
}

void AdmissionQueue::Start(AdmissionTicket& ticket) {
  ++permits_;
  permits_named_ += ticket.named ? 1 : 0;
  handed_.Add(ticket.expected);
}

bool AdmissionQueue::PermitFree() const {
  return !blocked() && permits_ - lent_ < options_.running;
}

bool AdmissionQueue::Full(int64_t input_bytes) const {
  return waiting_ >= options_.max_queue ||
         waiting_bytes_ + input_bytes > options_.queue_bytes ||
         (estimate_.measured() && WaitTime() > options_.max_wait);
}

bool AdmissionQueue::TooLate(const AdmissionTicket& ticket) const {
  return TooLate(ticket, estimate_.RunTime(ticket.expected, Load()));
}

bool AdmissionQueue::TooLate(const AdmissionTicket& ticket, Duration takes) const {
  // When no other call runs, this one is never too late: it takes no time from others.
  if (!ticket.deadline || permits_ == 0 || !estimate_.measured()) return false;
  return takes > *ticket.deadline - options_.clock->Now();
}

LoadEstimate::Load AdmissionQueue::Load() const {
  LoadEstimate::Load load = running_.load;
  // After a call that waits for blocks no other starts.
  if (!blocked()) load += handed_;
  return load;
}

LoadEstimate::Work AdmissionQueue::Before() const {
  LoadEstimate::Work work = waiting_work_;
  if (blocked()) {
    work += running_.starting_work;
    work += handed_.left;
  }
  return work;
}

}  // namespace mnemon
