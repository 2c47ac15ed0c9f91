// SPDX-License-Identifier: MIT
// The methods of a runner for any thread: taking calls, the queue, the end.
#include <algorithm>
#include <atomic>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/engine/engine_errors.h"
#include "server/engine/model_runner.h"
#include "server/engine/runner_arena.h"

namespace mnemon {
namespace {

// Ends of calls that one round records for the estimate.
constexpr size_t kMostEndsRecorded = 64;

// Waiting calls are asked for whether they will still be in time that often at most,
// and the first so many of them.
constexpr std::chrono::milliseconds kLateCheck{100};
constexpr int kMostAsked = 64;

// Tokens of a part to score that join a history at once.
constexpr size_t kInputPiece = 4096;

int64_t ContextOf(const EngineModel& model) {
  const int64_t state = model.decoder->spec().max_positions();
  return std::min(state, model.facts.context_limit.value_or(state));
}

}  // namespace

absl::StatusOr<std::shared_ptr<ModelRunner>> ModelRunner::Start(
    size_t index, const EngineModel& model,
    const std::shared_ptr<const EngineContext>& context) {
  // The runner is made after its arena, and outlives it: on_clean is not called later.
  const auto made = std::make_shared<std::atomic<ModelRunner*>>(nullptr);
  const auto on_clean = [made] {
    if (ModelRunner* const runner = *made) runner->Wake();
  };
  std::unique_ptr<StateMemory> memory = model.decoder->MakeStateMemory();
  const bool on_host = memory == nullptr;
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<StateArena> arena,
                          MakeArena(model, *context, on_clean, std::move(memory)));
  const std::shared_ptr<ModelRunner> runner(
      new ModelRunner(index, model, context, std::move(arena), on_host, on_clean));
  *made = runner.get();
  try {
    runner->thread_ = std::thread([self = runner.get()] { self->Run(); });
  } catch (const std::system_error&) {
    return absl::ResourceExhaustedError("the thread of a model cannot be started");
  }
  return runner;
}

ModelRunner::ModelRunner(size_t index, const EngineModel& model,
                         const std::shared_ptr<const EngineContext>& context,
                         std::unique_ptr<StateArena> arena, bool on_host,
                         std::function<void()> on_clean)
    : index_(index),
      model_(model),
      context_(context),
      vocab_(model.decoder->model().vocab),
      context_limit_(ContextOf(model)),
      block_bytes_(BlockBytes(model.decoder->spec())),
      capacity_bytes_(StateCapacity(model.decoder->spec(), context->options)),
      most_running_(context->options.running),
      state_on_host_(on_host),
      delivering_slots_(static_cast<size_t>(arena->slots())),
      estimate_(StepBudget{}.chunk, context->options.step_tokens),
      on_clean_(std::move(on_clean)),
      arena_(std::move(arena)),
      stepper_(*model.decoder, context->samplers) {
  ended_generated_.reserve(kMostEndsRecorded);
}

ModelRunner::~ModelRunner() { Stop(); }

void ModelRunner::Stop() {
  stop_now_ = true;
  {
    std::lock_guard lock(mutex_);
    draining_ = stopping_ = true;
    work_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void ModelRunner::Drain() {
  std::lock_guard lock(mutex_);
  draining_ = true;
}

bool ModelRunner::WaitIdle(Time deadline) {
  std::unique_lock lock(mutex_);
  return idle_.wait_until(lock, deadline, [&] { return IdleLocked(); });
}

bool ModelRunner::IdleLocked() const {
  return asleep_ && !awake_ && waiting_ == 0 && permits_ == 0;
}

ModelStats ModelRunner::Stats() const {
  ModelStats stats{.model = model_.facts.name,
                   .architecture = model_.facts.architecture,
                   .max_waiting = context_->options.max_queue,
                   .session_capacity = context_->options.sessions,
                   .sessions = context_->directory.size(index_),
                   .sessions_stored = context_->directory.stored(index_),
                   .weight_bytes = model_.decoder->weight_bytes(),
                   .state_on_host = state_on_host_,
                   .state_capacity_bytes = capacity_bytes_};
  const Progress::Duration limit = context_->ProgressLimit();
  const Time now = context_->options.clock->Now();
  std::lock_guard lock(mutex_);
  const int64_t starting =
      std::max<int64_t>(0, permits_named_ - published_.running_named);
  stats.running = permits_;
  stats.waiting = waiting_;
  const bool starts = waiting_ == 0 && PermitFreeLocked();
  if (!starts && estimate_.measured()) stats.wait = WaitTimeLocked();
  stats.stalled = published_.stalled + published_.unread;
  stats.unready = WhyUnreadyLocked(now, limit);
  stats.ready = stats.unready.empty();
  stats.sessions_queued = starting + waiting_named_;
  stats.sessions_running = published_.running_named + published_.delivering;
  stats.sessions_resting = published_.resting;
  stats.state_bytes = published_.state_bytes;
  stats.running_state_bytes = published_.running_state_bytes;
  stats.shadow_bytes = published_.shadow_bytes;
  stats.steps = published_.steps;
  stats.tokens_computed = published_.tokens_computed;
  stats.tokens_generated = published_.tokens_generated;
  stats.preemptions = published_.preemptions;
  return stats;
}

std::string_view ModelRunner::WhyUnreadyLocked(Time now,
                                               Progress::Duration limit) const {
  const bool work = awake_ || !asleep_;
  // Asked in any case: it remembers when it was.
  const Progress::Duration silence = progress_.Silence(work, now);
  const std::optional<Time>& blocked = published_.blocked_since;
  if (draining_) return "draining";
  if (published_.device_lost) return "device lost";
  if (silence > limit) return "no progress";
  if (published_.due && now - *published_.due > limit) return "stuck call";
  if (context_->waiters.overdue()) return "overdue answer";
  if (blocked && now - *blocked > kStateFull) return "state full";
  if (memory_refused_ && now - *memory_refused_ <= kMemoryFull) return "memory full";
  if ((waiting_ == 0 && PermitFreeLocked()) || context_->options.max_queue == 0 ||
      !QueueFullLocked(/*input_bytes=*/1)) {
    return "";
  }
  return "queue full";
}

void ModelRunner::Wake() {
  Lock lock(*this);
  WakeLocked();
}

void ModelRunner::WakeLocked() {
  awake_ = true;
  notify_ = asleep_;
}

void ModelRunner::HandOverLocked(const std::shared_ptr<Call>& call) {
  call->consumed_node.front() = call;
  consumed_.splice(consumed_.end(), call->consumed_node);
  WakeLocked();
}

absl::Status ModelRunner::Enqueue(const std::shared_ptr<Call>& call) {
  Calls node = {call};
  call->at = node.begin();
  std::optional<Refusal> refusal;
  {
    Lock lock(*this);
    refusal = EnqueueLocked(node);
  }
  return refusal ? StatusOf(*refusal) : absl::OkStatus();
}

std::optional<ModelRunner::Refusal> ModelRunner::EnqueueLocked(Calls& node) {
  using Reason = Refusal::Reason;
  const std::shared_ptr<Call> call = node.front();
  if (draining_) return RefusalLocked(Reason::kDraining);
  // A consumer may have the stream before its call comes here.
  if (call->stream->cancelled()) return RefusalLocked(Reason::kCancelled);
  call->expected =
      estimate_.WorkOf(call->tokens_to_compute_again() + call->prompt_tokens,
                       call->max_tokens - call->generated);
  const LoadEstimate::Duration run = RunTimeLocked(*call);
  if (queue_.empty() && PermitFreeLocked() &&
      !TooLateLocked(*call, LoadEstimate::kRunMargin * run)) {
    StartLocked(node);
    return std::nullopt;
  }
  if (QueueFullLocked(call->input_bytes)) return RefusalLocked(Reason::kQueueFull);
  if (TooLateLocked(*call, LoadEstimate::kRunMargin * run +
                               estimate_.wait_margin() * WaitTimeLocked())) {
    return RefusalLocked(Reason::kDeadline);
  }
  queue_.splice(queue_.end(), node);
  call->waiting = true;
  ++waiting_;
  waiting_named_ += call->nameless() ? 0 : 1;
  waiting_work_ += call->expected;
  waiting_bytes_ += call->input_bytes;
  return std::nullopt;
}

bool ModelRunner::QueueFullLocked(int64_t input_bytes) const {
  const EngineOptions& options = context_->options;
  return waiting_ >= options.max_queue ||
         waiting_bytes_ + input_bytes > options.queue_bytes ||
         (estimate_.measured() && WaitTimeLocked() > options.max_wait);
}

ModelRunner::Refusal ModelRunner::RefusalLocked(Refusal::Reason reason) const {
  return {.reason = reason, .waiting = waiting_, .wait = WaitTimeLocked()};
}

absl::Status ModelRunner::StatusOf(const Refusal& refusal) const {
  switch (refusal.reason) {
    case Refusal::Reason::kDraining:
      break;
    case Refusal::Reason::kQueueFull:
      return engine_errors::QueueFull(refusal.waiting, refusal.wait);
    case Refusal::Reason::kCancelled:
      return engine_errors::Cancelled();
    case Refusal::Reason::kDeadline:
      return engine_errors::DeadlineUnreachable(refusal.wait);
  }
  return engine_errors::Draining();
}

void ModelRunner::StartLocked(Calls& node) {
  ++permits_;
  handed_.Add(node.front()->expected);
  if (!node.front()->nameless()) ++permits_named_;
  started_.splice(started_.end(), node);
  WakeLocked();
}

bool ModelRunner::PermitFreeLocked() const {
  return published_.starting == 0 && permits_ - lent_ < most_running_;
}

LoadEstimate::Duration ModelRunner::TimeToNextEnd() const {
  std::lock_guard lock(mutex_);
  return estimate_.WaitTime({}, LoadLocked());
}

LoadEstimate::Duration ModelRunner::TimeLeft() const {
  std::lock_guard lock(mutex_);
  return estimate_.TimeLeft(LoadLocked());
}

LoadEstimate::Duration ModelRunner::WaitTimeLocked() const {
  return estimate_.WaitTime(WaitingLocked(), LoadLocked());
}

LoadEstimate::Duration ModelRunner::RunTimeLocked(const Call& call) const {
  return estimate_.RunTime(call.expected, LoadLocked());
}

LoadEstimate::Load ModelRunner::LoadLocked() const {
  LoadEstimate::Load load = published_.load;
  // Behind a call that waits for blocks no other starts.
  if (published_.starting == 0) load += handed_;
  return load;
}

LoadEstimate::Work ModelRunner::WaitingLocked() const {
  LoadEstimate::Work work = waiting_work_;
  if (published_.starting > 0) {
    work += published_.starting_work;
    work += handed_.left;
  }
  return work;
}

bool ModelRunner::TooLateLocked(const Call& call, LoadEstimate::Duration takes) const {
  // When no other call runs, this one is never too late: it takes no time from others.
  if (!call.deadline || permits_ == 0 || !estimate_.measured()) return false;
  return takes > *call.deadline - context_->options.clock->Now();
}

void ModelRunner::StartWaitingLocked(Refused& refused) {
  while (!queue_.empty() && PermitFreeLocked()) {
    Calls node;
    RemoveWaitingLocked(*queue_.front(), node);
    const Call& call = *node.front();
    const bool too_late = TooLateLocked(call, RunTimeLocked(call));
    if (call.deadline) estimate_.RecordTurn(too_late);
    if (too_late) {
      refused.too_late.splice(refused.too_late.end(), node);
    } else {
      StartLocked(node);
    }
  }
  RefuseLateLocked(refused);
  refused.wait = WaitTimeLocked();
}

void ModelRunner::RefuseLateLocked(Refused& refused) {
  const Time now = context_->options.clock->Now();
  if (queue_.empty() || now - late_checked_ < kLateCheck) return;
  late_checked_ = now;
  const LoadEstimate::Load load = LoadLocked();
  LoadEstimate::Work before = WaitingLocked();
  before -= waiting_work_;
  auto next = queue_.begin();
  for (int asked = 0; asked < kMostAsked && next != queue_.end(); ++asked) {
    Call& call = **next++;
    const LoadEstimate::Duration run = estimate_.RunTime(call.expected, load);
    if (TooLateLocked(call, run + estimate_.WaitTime(before, load))) {
      estimate_.RecordTurn(/*too_late=*/true);
      RemoveWaitingLocked(call, refused.too_late);
    } else {
      before += call.expected;
    }
  }
}

void ModelRunner::RemoveWaitingLocked(Call& call, Calls& to) {
  --waiting_;
  waiting_named_ -= call.nameless() ? 0 : 1;
  waiting_work_ -= call.expected;
  waiting_bytes_ -= call.input_bytes;
  call.waiting = false;
  to.splice(to.end(), queue_, call.at);
}

void ModelRunner::Refuse(Calls& calls, const absl::Status& status) {
  CallbackList due;
  for (; !calls.empty(); calls.pop_front()) {
    Call& call = *calls.front();
    if (!call.stateless()) {
      call.unused = call.session->history.TakeUnused();
      RememberStream(call);
    }
    if (Session* const held = call.holds()) {
      context_->directory.Release(*held, /*taken=*/false);
    }
    if (call.stream->Finish(status, std::nullopt)) due.Add(call.stream);
    due.Add(std::move(calls.front()));
  }
  context_->callbacks.Post(due);
}

void ModelRunner::Refuse(Refused& refused) {
  if (!refused.too_late.empty()) {
    Refuse(refused.too_late, CatchOutOfMemory({}, [&] {
             return engine_errors::DeadlineUnreachable(refused.wait);
           }));
  }
}

void ModelRunner::OnStreamEvent(const std::shared_ptr<Call>& call, StreamEvent event) {
  switch (event) {
    case StreamEvent::kSpace:
      return Wake();
    case StreamEvent::kEnd:
      // One that was cancelled first is cut, and released, by the runner.
      if (call->stream->cancelled() || !call->release_on_end.exchange(false)) return;
      call->unused = call->session->history.TakeUnused();
      {
        Lock lock(*this);
        HandOverLocked(call);
      }
      context_->directory.Release(*call->session, /*taken=*/true);
      return;
    case StreamEvent::kCancelled: {
      Calls cancelled;
      {
        Lock lock(*this);
        if (!call->waiting) return HandOverLocked(call);
        RemoveWaitingLocked(*call, cancelled);
        if (IdleLocked()) idle_.notify_all();
      }
      return Refuse(cancelled, engine_errors::Cancelled());
    }
  }
}

absl::Status ModelRunner::AddInput(const std::shared_ptr<Call>& call,
                                   std::span<const int32_t> tokens) {
  if (tokens.empty()) return absl::OkStatus();
  Input input{.call = call, .tokens = static_cast<int64_t>(tokens.size())};
  while (!tokens.empty()) {
    const auto piece = tokens.first(std::min(tokens.size(), kInputPiece));
    ByteCharge charge = ChargeOf(context_->memory, &EngineMemory::queue);
    if (!charge.TrySet(static_cast<int64_t>(piece.size_bytes()))) {
      return context_->MemoryLimit(static_cast<int64_t>(tokens.size_bytes()));
    }
    input.pieces.push_back(
        {.tokens = {piece.begin(), piece.end()}, .charge = std::move(charge)});
    tokens = tokens.subspan(piece.size());
  }
  const int64_t count = input.tokens;
  const int64_t bytes = count * static_cast<int64_t>(sizeof(int32_t));
  std::optional<Refusal> refusal;
  {
    Lock lock(*this);
    if (!call->waiting) {
      inputs_.push_back(std::move(input));
      WakeLocked();
    } else if (waiting_bytes_ + bytes > context_->options.queue_bytes) {
      refusal = RefusalLocked(Refusal::Reason::kQueueFull);
    } else {
      call->scoring->Receive(input.pieces, count);
      const auto work = estimate_.WorkOf(count, /*max_tokens=*/0);
      call->input_bytes += bytes;
      waiting_bytes_ += bytes;
      call->expected += work;
      waiting_work_ += work;
    }
    if (!refusal) call->scoring->sent += count;
  }
  return refusal ? StatusOf(*refusal) : absl::OkStatus();
}

void ModelRunner::CloseInput(const std::shared_ptr<Call>& call) {
  Lock lock(*this);
  call->scoring->input_end.store(call->scoring->sent, std::memory_order_release);
  if (!call->waiting) WakeLocked();
}

bool ModelRunner::GiveUp(int64_t bytes) {
  if (droppable_ == 0) return false;
  asked_ += bytes;
  Wake();
  return true;
}

void ModelRunner::RefuseForMemory() {
  const Time now = context_->options.clock->Now();
  std::lock_guard lock(mutex_);
  memory_refused_ = now;
}

void ModelRunner::Forget(std::shared_ptr<Session> session) {
  session->forgotten = true;
  context_->directory.PostTurn(*session);
  Lock lock(*this);
  SessionList& node = session->forgotten_node;
  node.front() = std::move(session);
  forgotten_.splice(forgotten_.end(), node);
  WakeLocked();
}

}  // namespace mnemon
