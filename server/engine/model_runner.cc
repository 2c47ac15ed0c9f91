// SPDX-License-Identifier: MIT
// The runner's loop: events, one step, what follows from it.
#include "server/engine/model_runner.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/out_of_memory.h"
#include "base/strings.h"
#include "server/engine/engine_errors.h"
#include "server/engine/runner_arena.h"
#include "server/engine/session_persistence.h"

namespace mnemon {
namespace {

// Where memory has run out the call ends with that.
absl::Status SessionDeleted() {
  return CatchOutOfMemory({}, engine_errors::SessionDeleted);
}
absl::Status CallerIdle(std::chrono::milliseconds idle) {
  return CatchOutOfMemory({}, [&] { return engine_errors::CallerIdle(idle); });
}

}  // namespace

void ModelRunner::Run() {
  while (Await()) {
    try {
      Round();
    } catch (const std::exception& e) {
      // Memory ran out in the bookkeeping: these calls end, the runner goes on.
      callbacks_.Add(LogCallback("runner_round_failed", e.what()));
      EndAll(OutOfMemoryError());
    }
  }
  const absl::Status draining = CatchOutOfMemory({}, engine_errors::Draining);
  EndAll(draining);
  {
    // Those of Do from Stop on are refused there.
    std::lock_guard lock(mutex_);
    tasks_due_.splice(tasks_due_.end(), tasks_);
  }
  for (; !tasks_due_.empty(); tasks_due_.pop_front()) {
    tasks_due_.front()->Refuse(draining);
  }
  context_->turns.Leave(turn_);
}

// Calls that run and have nothing to do wait for their consumers, which take what waits
// within a moment, or not soon.
bool ModelRunner::AwaitConsumersWithTheTurn() {
  if (!AnyRuns()) return false;
  const std::chrono::nanoseconds most = context_->turns.Patience(turn_);
  if (most.count() == 0) return false;
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  asleep_ = true;
  idle_.notify_all();
  const bool woken = work_.wait_for(lock, most, [this] { return awake_ || stopping_; });
  asleep_ = false;
  lock.unlock();
  context_->turns.Paused(turn_, std::chrono::steady_clock::now() - begin, !woken);
  return woken;
}

bool ModelRunner::Await() {
  if (!busy_) {
    if (!AwaitConsumersWithTheTurn()) context_->turns.Leave(turn_);
    last_step_end_.reset();
  }
  const std::optional<Time> due = busy_ ? std::nullopt : NextDue();
  std::unique_lock lock(mutex_);
  while (!awake_ && !stopping_ && !busy_ && !room_unfinished_) {
    asleep_ = true;
    idle_.notify_all();
    if (!due) {
      work_.wait(lock);
      continue;
    }
    const auto left = *due - context_->options.clock->Now();
    if (left.count() <= 0) break;
    work_.wait_for(lock, SleepFor(left));
  }
  progress_.Sign();
  woken_ = woken_ || awake_;
  asleep_ = awake_ = false;
  starting_.splice(starting_.end(), started_);
  received_.swap(inputs_);
  removed_.splice(removed_.end(), forgotten_);
  tasks_due_.splice(tasks_due_.end(), tasks_);
  consumer_ended_.splice(consumer_ended_.end(), consumed_);
  return !stopping_;
}

std::optional<ModelRunner::Time> ModelRunner::NextDue() const {
  std::optional<Time> due = restart_at_;
  const auto idle = context_->options.idle_timeout;
  for (const auto& call : running_) SetEarlier(due, DueOf(*call));
  SetEarlier(due, stalled_counts_.due);
  if (!delivering_.empty()) {
    SetEarlier(due,
               FromIdle(*delivering_.front()->stalled_since + std::min(kUnread, idle)));
  }
  if (!unread_.empty()) {
    SetEarlier(due, FromIdle(*unread_.front()->stalled_since + idle));
  }
  return due;
}

ModelRunner::Time ModelRunner::IdleNow() const {
  const EngineOptions& options = context_->options;
  return (options.idle_clock ? options.idle_clock : options.clock)->Now();
}

ModelRunner::Time ModelRunner::FromIdle(Time time) const {
  const EngineOptions& options = context_->options;
  if (!options.idle_clock) return time;
  return options.clock->Now() + (time - options.idle_clock->Now());
}

void ModelRunner::LookAtStalled() {
  running_.splice(running_.end(), stalled_);
  stalled_counts_ = {};
}

std::optional<ModelRunner::Time> ModelRunner::DueOf(const Call& call) const {
  std::optional<Time> due = call.time_up();
  if (!call.stalled_since) return due;
  const Time idle = FromIdle(*call.stalled_since + context_->options.idle_timeout);
  return due ? std::min(*due, idle) : idle;
}

void ModelRunner::Round() {
  round_ = context_->options.clock->Now();
  idle_round_ = context_->options.idle_clock ? IdleNow() : round_;
  const std::optional<Time> due = stalled_counts_.due;
  if (std::exchange(woken_, false) || (due && *due <= round_)) LookAtStalled();
  room_left_ = kMostDropped;
  unblocked_ = false;
  if (!std::exchange(room_unfinished_, false)) worthless_ = 0;
  Receive();
  DoTasks();
  GiveUpStates();
  for (const auto& call : running_) TakeInput(*call);
  EndDueCalls();
  if (!DeviceThere()) {
    while (!starting_.empty()) {
      EndStarting(starting_.front(), CatchOutOfMemory({}, DeviceLost));
    }
  }
  bool admitted = false;
  while (true) {
    Plan();
    // Blocks go to calls that pause before they go to new ones.
    if (starved_.empty() && AdmitStarting()) {
      admitted = true;
    } else if (!chunks_.empty() || !ResolveStarvation()) {
      break;
    }
  }
  // What has changed so far need not wait for the step.
  const bool waits = static_cast<int64_t>(starting_.size()) != counts_.starting;
  if (admitted || waits || endings_ > 0 || !callbacks_.empty()) Publish();
  busy_ = !chunks_.empty() || stepper_.under_way() > 0;
  if (busy_) RunStep();
  Publish();
}

void ModelRunner::Receive() {
  for (Input& input : received_) {
    Call& call = *input.call;
    if (call.phase != Call::Phase::kWaiting && call.phase != Call::Phase::kRunning) {
      continue;
    }
    call.scoring->Receive(input.pieces, input.tokens);
    if (call.stream->space() > 0) call.stalled_since.reset();
  }
  received_.clear();
  for (; !removed_.empty(); removed_.pop_front()) {
    HandleForgotten(removed_.front());
    callbacks_.Add(std::move(removed_.front()));
  }
  for (; !consumer_ended_.empty(); consumer_ended_.pop_front()) {
    HandleConsumerEnd(consumer_ended_.front());
    callbacks_.Add(std::move(consumer_ended_.front()));
  }
}

void ModelRunner::HandleConsumerEnd(const std::shared_ptr<Call>& call) {
  const bool ended =
      call->stream->cancelled() && call->stream->cancel_kind() == CancelKind::kEnd;
  if (ended && call->phase == Call::Phase::kOver && !call->ending) {
    // Its session was removed while it delivered.
    if (call->stream->Finish(engine_errors::Cancelled(), std::nullopt)) {
      callbacks_.Add(call->stream);
    }
  }
  if (call->phase == Call::Phase::kRunning && call->runs_on()) {
    return LeaveConsumer(*call, engine_errors::Cancelled());
  }
  // One that was cancelled before it delivers is ended as part of its list.
  if (call->phase != Call::Phase::kDelivering) return;
  if (!call->release_on_end) {  // its consumer has taken the end
    LeaveDelivered(*call);
  } else if (call->stream->cancelled() && call->release_on_end.exchange(false)) {
    CutToDelivered(*call);
    if (!ended) return;
    call->ending = {.status = engine_errors::Cancelled(), .facts = std::nullopt};
    ++endings_;
  }
}

void ModelRunner::LeaveDelivered(Call& call) {
  SetOver(call);
  Rest(call.session);
  Store(call.session, SnapshotTime::kAtRest);
}

void ModelRunner::HandleForgotten(const std::shared_ptr<Session>& session) {
  Call* const holder = session->call;
  if (holder != nullptr && holder->phase == Call::Phase::kRunning) {
    DropCheckpoints(*session);
    return End(holder->shared_from_this(), SessionDeleted());
  }
  // What was generated is still delivered.
  if (holder != nullptr) SetOver(*holder);
  DropCheckpoints(*session);
  DropState(*session);
}

void ModelRunner::TakeInput(Call& call) {
  if (!call.scoring || call.end_later) return;
  std::list<InputPiece>& input = call.scoring->input;
  TokenHistory& history = call.session->history;
  const int64_t computed = call.session->state.computed(*arena_);
  while (!input.empty() && history.size() - computed <= StepBudget{}.chunk) {
    history.Append(input.front().tokens);
    call.scoring->input_tokens -= static_cast<int64_t>(input.front().tokens.size());
    input.pop_front();
  }
}

void ModelRunner::EndDueCalls() {
  const Time now = round_;
  const auto idle = context_->options.idle_timeout;
  for (auto next = starting_.begin(); next != starting_.end();) {
    const std::shared_ptr<Call> call = *next++;
    if (call->holds() != nullptr && call->holds()->forgotten) {
      EndStarting(call, SessionDeleted());
    } else if (call->stream->cancelled()) {
      EndStarting(call, engine_errors::Cancelled());
    } else if (absl::Status late = CheckDeadline(*call); !late.ok()) {
      EndStarting(call, std::move(late));
    }
  }
  for (auto next = running_.begin(); next != running_.end();) {
    const std::shared_ptr<Call> call = *next++;
    const auto time_up = call->time_up();
    if (call->end_later) continue;
    if (call->cancelled()) {
      End(call, engine_errors::Cancelled());
    } else if (call->commits() && call->scoring->source->forgotten) {
      End(call, SessionDeleted());
    } else if (time_up && *time_up <= now) {
      End(call, absl::OkStatus(),
          FinishFacts{.reason = FinishReason::kTimeLimit,
                      .generated_tokens = call->generated});
    } else if (call->scoring && NothingToDo(*call)) {
      End(call, absl::OkStatus(), FinishFacts{});
    } else if (call->stalled_since && *call->stalled_since + idle <= idle_round_ &&
               WaitsForCaller(*call)) {
      Abort(call, CallerIdle(idle));
    }
  }
  EndDueDelivering();
}

void ModelRunner::EndDueDelivering() {
  const Time now = idle_round_;
  const auto idle = context_->options.idle_timeout;
  while (!delivering_.empty() &&
         *delivering_.front()->stalled_since + std::min(kUnread, idle) <= now) {
    delivering_.front()->unread = true;
    unread_.splice(unread_.end(), delivering_, delivering_.begin());
  }
  while (!unread_.empty()) {
    const std::shared_ptr<Call> call = unread_.front();
    if (*call->stalled_since + idle > now) return;
    const int64_t delivered = call->stream->delivered();
    if (std::exchange(call->delivered_then, delivered) == delivered) {
      Abort(call, CallerIdle(idle));
    }
    // It has read, or ends by itself.
    if (call->phase == Call::Phase::kDelivering) {
      call->stalled_since = now;
      call->unread = false;
      delivering_.splice(delivering_.end(), unread_, call->at);
    }
  }
}

void ModelRunner::RunStep() {
  const EngineOptions& options = context_->options;
  // Those that were part of a failed step come last, each in a step of its own.
  const auto together = std::stable_partition(
      chunks_.begin(), chunks_.end(), [](const ScheduledChunk& chunk) {
        return chunk.position >= chunk.call->alone_until;
      });
  const std::span chunks(chunks_);
  const size_t count = together - chunks_.begin();
  // What stays under way is computed in the turn of another one that waits.
  int left = model_.decoder->most_under_way() - 1;
  if (count == 0 || count < chunks.size() || (left > 0 && context_->turns.Wanted())) {
    left = 0;
  }
  Step(chunks.first(count), left);
  for (size_t i = count; i < chunks.size() && !stop_now_ && !restart_at_; ++i) {
    const Call& call = *chunks[i].call;
    const std::optional<Time> time_up = call.time_up();
    // The next round ends it.
    if (call.cancelled() || (time_up && *time_up <= options.clock->Now())) {
      continue;
    }
    Step(chunks.subspan(i, 1), 0);
  }
  chunks_.clear();
}

void ModelRunner::Step(std::span<ScheduledChunk> chunks, int left) {
  std::span<ScheduledChunk> done;
  if (!chunks.empty()) {
    const PoolTurns::Piece piece(context_->turns, turn_);
    progress_.Sign();
    if (stepper_.under_way() == 0) step_begin_ = context_->options.clock->Now();
    if (!stepper_.Submit(chunks, *arena_)) left = 0;
    if (stepper_.under_way() > left) done = CompleteStep();
  }
  Commit(done);
  while (stepper_.under_way() > left) {
    {
      const PoolTurns::Piece piece(context_->turns, turn_);
      done = CompleteStep();
    }
    Commit(done);
  }
}

std::span<ScheduledChunk> ModelRunner::CompleteStep() {
  const EngineOptions& options = context_->options;
  const std::span<ScheduledChunk> done = stepper_.Complete(*arena_);
  progress_.Sign();
  const Time end = options.clock->Now();
  ++counts_.steps;
  for (const ScheduledChunk& chunk : done) step_tokens_ += chunk.count;
  step_interval_ = step_interval_.value_or(LoadEstimate::Duration(0)) + end -
                   last_step_end_.value_or(step_begin_);
  last_step_end_ = end;
  if (options.observer) {
    options.observer->OnStep(index_, static_cast<int64_t>(done.size()),
                             end - step_begin_);
  }
  step_begin_ = end;
  return done;
}

void ModelRunner::Commit(std::span<ScheduledChunk> chunks) {
  for (const std::string& what : stepper_.TakeFailures()) {
    callbacks_.Add(LogCallback("model_step_failed", what));
  }
  for (ScheduledChunk& chunk : chunks) Commit(chunk);
  if (stepper_.lost()) LoseDevice();
  EndWaiting();
}

void ModelRunner::Commit(ScheduledChunk& chunk) {
  const std::shared_ptr<Call> call = chunk.call->shared_from_this();
  Session& session = *call->session;
  if (chunk.computed) {
    counts_.tokens_computed += chunk.count;
    call->computed_tokens += chunk.count;
    if (chunk.available > 1) call->prefill_served += chunk.count;
  }
  UpdateBytes(session);
  if (call->end_later) return;
  if (!chunk.status.ok()) {
    End(call, std::move(chunk.status));
    return;
  }
  if (call->scoring) {
    for (TokenLogprobs& scored : chunk.scored) {
      const int32_t token = scored.token;
      Push(*call, call->scoring->next, token, std::move(scored));
      ++call->scoring->next;
    }
    return;
  }
  if (!chunk.token) ReportPrompt(*call, chunk.position + chunk.count);
  if (call->max_tokens == 0) {
    if (chunk.position + chunk.count >= call->to_compute() && chunk.computed) {
      End(call, absl::OkStatus(), FinishFacts{});
    }
    return;
  }
  if (chunk.token) CommitToken(chunk, call);
}

void ModelRunner::ReportPrompt(Call& call, int64_t computed) {
  const int64_t prompt = call.prompt_end - call.base;
  if (computed >= call.prompt_end) return;
  Notify(call,
         call.stream->Report(
             {.computed = std::max<int64_t>(0, computed - call.base), .of = prompt},
             *last_step_end_));
}

void ModelRunner::Push(Call& call, int64_t index, int32_t token,
                       std::optional<TokenLogprobs> logprobs,
                       std::optional<Introspection> introspection) {
  Notify(call, call.stream->Push(index, token, std::move(logprobs), *last_step_end_,
                                 std::move(introspection)));
}

void ModelRunner::Notify(Call& call, TokenStream::Notice notice) {
  switch (notice) {
    case TokenStream::Notice::kNone:
      break;
    case TokenStream::Notice::kNow:
      callbacks_.Add(call.stream);
      break;
    case TokenStream::Notice::kLater:
      later_.Add(TokenStream::Late(call.stream));
  }
}

void ModelRunner::CommitToken(ScheduledChunk& chunk,
                              const std::shared_ptr<Call>& call) {
  if (!call->prompt_done) {
    call->prompt_done = *last_step_end_;
  }
  call->reserved_blocks = 0;
  const int32_t token = *chunk.token;
  TokenHistory& history = call->session->history;
  const int64_t index = history.size();
  history.Append({&token, 1});
  try {
    Push(*call, index, token, std::move(chunk.logprobs),
         std::move(chunk.introspection));
  } catch (const std::bad_alloc&) {
    history.Cut(index);  // a token that nobody will get
    throw;
  }
  ++call->generated;
  ++counts_.tokens_generated;
  if (history.size() % context_->options.snapshot_tokens == 0) {
    Store(call->session, SnapshotTime::kNow);
  }
  if (auto facts = call->EndWith(token, index, chunk.stop_string, context_limit_)) {
    // One that ended once ends as it did then.
    if (call->record && call->record->end) {
      return End(call, call->record->end->status, call->record->end->facts);
    }
    return End(call, absl::OkStatus(), std::move(facts));
  }
  if (history.size() % 512 == 1 && !HistoryFits(*call)) {
    // It has taken more memory for its history than there is.
    End(call, CatchOutOfMemory({}, engine_errors::MemoryLimit));
  }
}

bool ModelRunner::HistoryFits(const Call& call) const {
  const EngineMemory& memory = *context_->memory;
  if (call.nameless()) return !memory.budget.exhausted();
  if (context_->persistence != nullptr) context_->persistence->KeepMemoryFree();
  if (!memory.resting.exhausted()) return true;
  // Others that are in the store make way.
  return !memory.budget.exhausted() && context_->persistence != nullptr &&
         context_->persistence->GiveUpHistories(0);
}

void ModelRunner::Publish() {
  counts_.running = static_cast<int64_t>(running_.size() + stalled_.size());
  counts_.load = {};
  counts_.running_named = stalled_counts_.named;
  counts_.stalled = static_cast<int64_t>(stalled_.size());
  counts_.due = stalled_counts_.due;
  SetEarlier(counts_.due, stalled_counts_.deadline);
  bool starved = false;
  for (const auto& call : running_) {
    SetEarlier(counts_.due, call->deadline);
    SetEarlier(counts_.due, DueOf(*call));
    starved = starved || call->starved;
    counts_.running_named += call->nameless() ? 0 : 1;
    if (call->stalled_since) ++counts_.stalled;
    if (call->stalled_since || call->starved) continue;
    counts_.load.Add(estimate_.Left(call->expected, call->computed_tokens));
  }
  counts_.device_lost = restart_at_.has_value();
  counts_.starting = static_cast<int64_t>(starting_.size());
  counts_.starting_work = {};
  for (const auto& call : starting_) {
    SetEarlier(counts_.due, call->deadline);
    counts_.starting_work += call->expected;
  }
  if (starting_.empty() && !starved) {
    counts_.blocked_since.reset();
  } else if (unblocked_ || !counts_.blocked_since) {
    counts_.blocked_since = round_;
  }
  counts_.unread = static_cast<int64_t>(unread_.size());
  counts_.delivering =
      static_cast<int64_t>(ending_.size() + delivering_.size()) + counts_.unread;
  // Blocks being recycled belong to no session. Read first, since their number only
  // falls.
  const int64_t recycling = arena_->pools().blocks_recycling() * block_bytes_;
  counts_.state_bytes = std::max<int64_t>(0, arena_->pools().bytes_used() - recycling);
  counts_.running_state_bytes = std::min(counts_.state_bytes, SlotBytes());
  counts_.shadow_bytes = arena_->pools().shadow_bytes();
  // Those of calls that deliver rest, too.
  counts_.resting = std::max<int64_t>(0, resting_named_ - counts_.delivering);
  Refused refused;
  {
    Lock lock(*this);
    permits_ -= std::exchange(ended_permits_, 0);
    permits_named_ -= std::exchange(ended_named_, 0);
    lent_ = static_cast<int32_t>(std::min<int64_t>(counts_.stalled, permits_));
    lent_ = std::min(lent_, MostLent(context_->options));
    if (step_interval_) estimate_.RecordStep(*step_interval_, step_tokens_);
    for (int64_t generated : ended_generated_) estimate_.RecordEnd(generated);
    published_ = counts_;
    if (std::exchange(admitted_, false)) memory_refused_.reset();
    handed_ = {};
    for (const auto& call : started_) handed_.Add(call->expected);
    StartWaitingLocked(refused);
  }
  step_interval_.reset();
  step_tokens_ = 0;
  ended_generated_.clear();
  Refuse(refused);
  const auto finish = [&](Call& call) {
    if (!call.ending) return;
    const bool held = call.phase == Call::Phase::kDelivering;
    if (call.stream->Finish(std::move(call.ending->status),
                            std::move(call.ending->facts), held)) {
      callbacks_.Add(call.stream);
    }
    call.ending.reset();
  };
  while (!ending_.empty()) {
    finish(*ending_.front());
    if (const auto& journal = ending_.front()->session->journal) journal->EndTurn();
    delivering_.splice(delivering_.end(), ending_, ending_.begin());
  }
  for (const auto& call : over_) {
    finish(*call);
    // It delivers nothing more, and its session may have another call already.
    ReleaseEnd(*call);
  }
  endings_ = 0;
  for (; !over_.empty(); over_.pop_front()) callbacks_.Add(std::move(over_.front()));
  context_->callbacks.Post(callbacks_);
  context_->callbacks.PostLater(later_);
}

}  // namespace mnemon
