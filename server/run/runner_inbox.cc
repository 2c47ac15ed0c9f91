// SPDX-License-Identifier: MIT
#include "server/run/runner_inbox.h"

#include <algorithm>

#include "base/out_of_memory.h"
#include "server/requests/engine_errors.h"
#include "server/residency/runner_arena.h"
#include "server/run/newest_call.h"
#include "server/run/runner_states.h"

namespace mnemon {
namespace {

// Tokens of a part to score that join a history at once.
constexpr size_t kInputPiece = 4096;

}  // namespace

RunnerInbox::RunnerInbox(const EngineContext& context)
    : context_(context),
      queue_({.running = context.options.running,
              .most_lent = MostLent(context.options),
              .max_queue = context.options.max_queue,
              .queue_bytes = context.options.queue_bytes,
              .max_wait = context.options.max_wait,
              .chunk = kMostChunk,
              .step_tokens = context.options.step_tokens,
              .clock = context.options.clock}) {}

void RunnerInbox::Wake() {
  Lock lock(*this);
  WakeLocked();
}

void RunnerInbox::WakeLocked() {
  awake_ = true;
  notify_ = asleep_;
}

absl::Status RunnerInbox::Enqueue(const std::shared_ptr<Call>& call) {
  Calls node = {call};
  call->at = node.begin();
  call->named = !call->nameless();
  Refusal refusal;
  {
    Lock lock(*this);
    refusal = EnqueueLocked(node);
  }
  return refusal ? refusal() : absl::OkStatus();
}

RunnerInbox::Refusal RunnerInbox::EnqueueLocked(Calls& node) {
  Call& call = *node.front();
  if (draining_) return engine_errors::Draining;
  // A consumer may have the stream before its call comes here.
  if (call.stream->cancelled()) return engine_errors::Cancelled;
  switch (queue_.Enter(call, call.tokens_to_compute_again() + call.prompt_tokens,
                       call.params->max_tokens - call.progress.generated)) {
    case AdmissionQueue::Verdict::kStarts:
      mail_.started.splice(mail_.started.end(), node);
      WakeLocked();
      break;
    case AdmissionQueue::Verdict::kWaits:
      waiting_.splice(waiting_.end(), node);
      break;
    case AdmissionQueue::Verdict::kQueueFull:
      return QueueFullLocked();
    case AdmissionQueue::Verdict::kTooLate:
      return [wait = queue_.WaitTime()] {
        return engine_errors::DeadlineUnreachable(wait);
      };
  }
  return nullptr;
}

RunnerInbox::Refusal RunnerInbox::QueueFullLocked() const {
  return [waiting = queue_.waiting(), wait = queue_.WaitTime()] {
    return engine_errors::QueueFull(waiting, wait);
  };
}

absl::Status RunnerInbox::AddInput(const std::shared_ptr<Call>& call,
                                   std::span<const int32_t> tokens) {
  if (tokens.empty()) return absl::OkStatus();
  Input input{.call = call, .tokens = static_cast<int64_t>(tokens.size())};
  while (!tokens.empty()) {
    const auto piece = tokens.first(std::min(tokens.size(), kInputPiece));
    ByteCharge charge = ChargeOf(context_.memory, &EngineMemory::queue);
    if (!charge.TrySet(static_cast<int64_t>(piece.size_bytes()))) {
      return context_.MemoryLimit(static_cast<int64_t>(tokens.size_bytes()));
    }
    input.pieces.push_back(
        {.tokens = {piece.begin(), piece.end()}, .charge = std::move(charge)});
    tokens = tokens.subspan(piece.size());
  }
  const int64_t count = input.tokens;
  const int64_t bytes = count * static_cast<int64_t>(sizeof(int32_t));
  Refusal refusal;
  {
    Lock lock(*this);
    if (!call->waiting) {
      mail_.inputs.push_back(std::move(input));
      WakeLocked();
    } else if (queue_.AddInput(*call, bytes, count)) {
      call->scoring->Receive(input.pieces, count);
    } else {
      refusal = QueueFullLocked();
    }
    if (!refusal) call->scoring->sent += count;
  }
  return refusal ? refusal() : absl::OkStatus();
}

void RunnerInbox::CloseInput(const std::shared_ptr<Call>& call) {
  Lock lock(*this);
  call->scoring->input_end.store(call->scoring->sent, std::memory_order_release);
  if (!call->waiting) WakeLocked();
}

void RunnerInbox::Forget(std::shared_ptr<Session> session) {
  Lock lock(*this);
  SessionList& node = session->in_runner.forgotten_node;
  node.front() = std::move(session);
  mail_.forgotten.splice(mail_.forgotten.end(), node);
  WakeLocked();
}

void RunnerInbox::Do(std::shared_ptr<StateTask> task) {
  std::list<std::shared_ptr<StateTask>> node = {std::move(task)};
  {
    Lock lock(*this);
    if (!stopping_) {
      mail_.tasks.splice(mail_.tasks.end(), node);
      WakeLocked();
    }
  }
  if (!node.empty()) node.front()->Refuse(engine_errors::Draining());
}

void RunnerInbox::RefuseForMemory() {
  const Time now = context_.options.clock->Now();
  std::lock_guard lock(mutex_);
  memory_refused_ = now;
}

void RunnerInbox::Drain() {
  std::lock_guard lock(mutex_);
  draining_ = true;
}

void RunnerInbox::Stop() {
  std::lock_guard lock(mutex_);
  draining_ = stopping_ = true;
  work_.notify_one();
}

bool RunnerInbox::WaitIdle(Time deadline) {
  std::unique_lock lock(mutex_);
  return idle_.wait_until(lock, deadline, [&] { return IdleLocked(); });
}

bool RunnerInbox::IdleLocked() const {
  return asleep_ && !awake_ && queue_.empty() && queue_.permits() == 0;
}

void RunnerInbox::HandOver(const std::shared_ptr<Call>& call) {
  Lock lock(*this);
  call->consumed_node.front() = call;
  mail_.consumed.splice(mail_.consumed.end(), call->consumed_node);
  WakeLocked();
}

void RunnerInbox::Cancel(const std::shared_ptr<Call>& call) {
  // One that is cancelled does not begin to wait.
  if (!RefuseWaiting(call, engine_errors::Cancelled())) HandOver(call);
}

bool RunnerInbox::RefuseWaiting(const std::shared_ptr<Call>& call,
                                const absl::Status& status) {
  Calls refused;
  {
    Lock lock(*this);
    if (!call->waiting) return false;
    queue_.Leave(*call);
    refused.splice(refused.end(), waiting_, call->at);
    if (IdleLocked()) idle_.notify_all();
  }
  Refuse(refused, status);
  return true;
}

void RunnerInbox::RefuseAll(const absl::Status& status) {
  Calls refused;
  {
    std::lock_guard lock(mutex_);
    queue_.Clear([](AdmissionTicket&) {});
    refused.swap(waiting_);
  }
  Refuse(refused, status);
}

void RunnerInbox::Refuse(Calls& calls, const absl::Status& status) const {
  CallbackList due;
  for (; !calls.empty(); calls.pop_front()) {
    Call& call = *calls.front();
    if (!call.stateless()) {
      call.delivery.unused = call.session->history.TakeUnused();
      RememberStream(context_, call);
    }
    if (Session* const held = call.holds()) {
      context_.directory.calls().Release(*held, /*taken=*/false);
    }
    if (call.stream->Finish(status, std::nullopt)) due.Add(call.stream);
    due.Add(std::move(calls.front()));
  }
  context_.callbacks.Post(due);
}

bool RunnerInbox::Await(bool busy, std::optional<Time> due, Mail& mail) {
  std::unique_lock lock(mutex_);
  while (!awake_ && !stopping_ && !busy) {
    asleep_ = true;
    idle_.notify_all();
    if (!due) {
      work_.wait(lock);
      continue;
    }
    const auto left = *due - context_.options.clock->Now();
    if (left.count() <= 0) break;
    work_.wait_for(lock, SleepFor(left));
  }
  progress_.Sign();
  mail.woken = mail.woken || awake_;
  asleep_ = awake_ = false;
  mail.started.splice(mail.started.end(), mail_.started);
  mail.inputs.swap(mail_.inputs);
  mail.forgotten.splice(mail.forgotten.end(), mail_.forgotten);
  mail.tasks.splice(mail.tasks.end(), mail_.tasks);
  mail.consumed.splice(mail.consumed.end(), mail_.consumed);
  return !stopping_;
}

bool RunnerInbox::AwaitFor(std::chrono::nanoseconds most) {
  std::unique_lock lock(mutex_);
  asleep_ = true;
  idle_.notify_all();
  const bool woken = work_.wait_for(lock, most, [this] { return awake_ || stopping_; });
  asleep_ = false;
  return woken;
}

void RunnerInbox::Publish(RunnerScope& scope, std::optional<Duration> step_interval,
                          int64_t step_tokens) {
  RunnerCalls& calls = scope.calls;
  Calls too_late;
  Duration wait{0};
  {
    Lock lock(*this);
    if (step_interval) queue_.RecordStep(*step_interval, step_tokens);
    for (const int64_t generated : calls.ended_generated) queue_.RecordEnd(generated);
    LoadEstimate::Load handed;
    for (const auto& call : mail_.started) handed.Add(call->expected);
    queue_.EndRound(std::exchange(calls.ended_permits, 0),
                    std::exchange(calls.ended_named, 0), scope.counts.stalled,
                    scope.counts.running, handed);
    published_ = scope.counts;
    if (std::exchange(scope.admitted, false)) memory_refused_.reset();
    queue_.StartWaiting([&](AdmissionTicket& ticket, bool starts) {
      Calls& to = starts ? mail_.started : too_late;
      to.splice(to.end(), waiting_, static_cast<Call&>(ticket).at);
      if (starts) WakeLocked();
    });
    wait = queue_.WaitTime();
  }
  calls.ended_generated.clear();
  if (too_late.empty()) return;
  Refuse(too_late, CatchOutOfMemory(
                       {}, [&] { return engine_errors::DeadlineUnreachable(wait); }));
}

std::optional<RunnerInbox::Duration> RunnerInbox::WaitOfLateStart(
    const Call& call) const {
  std::lock_guard lock(mutex_);
  // One that has just got its permit was checked then.
  if (!queue_.blocked() || !queue_.TooLate(call)) return std::nullopt;
  return queue_.WaitTime();
}

RunnerInbox::Duration RunnerInbox::TimeToNextEnd() const {
  std::lock_guard lock(mutex_);
  return queue_.TimeToNextEnd();
}

RunnerInbox::Duration RunnerInbox::TimeLeft() const {
  std::lock_guard lock(mutex_);
  return queue_.TimeLeft();
}

bool RunnerInbox::PinsEnd(const RunnerScope& scope) const {
  if (scope.pins == 0) return false;
  const auto replays = [](const Calls& calls) {
    return std::count_if(calls.begin(), calls.end(),
                         [](const auto& call) { return call->keeps_state; });
  };
  const RunnerCalls& calls = scope.calls;
  std::lock_guard lock(mutex_);
  return scope.pins > replays(calls.running) + replays(calls.stalled) +
                          replays(calls.starting) + replays(mail_.started) +
                          replays(waiting_);
}

void RunnerInbox::Describe(ModelStats& stats, Time now,
                           Progress::Duration limit) const {
  std::lock_guard lock(mutex_);
  const RunnerCounts& counts = published_;
  const int64_t starting =
      std::max<int64_t>(0, queue_.permits_named() - counts.running_named);
  stats.running = queue_.permits();
  stats.waiting = queue_.waiting();
  const bool starts = queue_.empty() && queue_.PermitFree();
  if (!starts && queue_.estimate().measured()) stats.wait = queue_.WaitTime();
  stats.stalled = counts.stalled + counts.unread;
  stats.unready = WhyUnreadyLocked(now, limit);
  stats.ready = stats.unready.empty();
  stats.sessions_queued = starting + queue_.waiting_named();
  stats.sessions_running = counts.running_named + counts.delivering;
  stats.sessions_resting = counts.resting;
  stats.state_bytes = counts.state_bytes;
  stats.running_state_bytes = counts.running_state_bytes;
  stats.shadow_bytes = counts.shadow_bytes;
  stats.steps = counts.steps;
  stats.tokens_computed = counts.tokens_computed;
  stats.tokens_generated = counts.tokens_generated;
  stats.preemptions = counts.preemptions;
}

std::string_view RunnerInbox::WhyUnreadyLocked(Time now,
                                               Progress::Duration limit) const {
  const bool work = awake_ || !asleep_;
  // Asked in any case: it remembers when it was.
  const Progress::Duration silence = progress_.Silence(work, now);
  const std::optional<Time>& blocked = published_.blocked_since;
  if (draining_) return "draining";
  if (published_.device_lost) return "device lost";
  if (silence > limit) return "no progress";
  if (published_.due && now - *published_.due > limit) return "stuck call";
  if (context_.waiters.overdue()) return "overdue answer";
  if (blocked && now - *blocked > kStateFull) return "state full";
  if (memory_refused_ && now - *memory_refused_ <= kMemoryFull) return "memory full";
  if ((queue_.empty() && queue_.PermitFree()) || context_.options.max_queue == 0 ||
      !queue_.Full(/*input_bytes=*/1)) {
    return "";
  }
  return "queue full";
}

}  // namespace mnemon
