// SPDX-License-Identifier: MIT
#include "server/run/model_runner.h"

#include <algorithm>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/requests/engine_errors.h"
#include "server/residency/runner_arena.h"

namespace mnemon {

absl::StatusOr<std::shared_ptr<ModelRunner>> ModelRunner::Start(
    size_t index, const EngineModel& model,
    const std::shared_ptr<const EngineContext>& context) {
  // The runner is made after its arena, and outlives it: on_clean is not called later.
  const auto made = std::make_shared<std::atomic<ModelRunner*>>(nullptr);
  const auto on_clean = [made] {
    if (ModelRunner* const runner = *made) runner->inbox_.Wake();
  };
  std::unique_ptr<StateMemory> memory = model.decoder->MakeStateMemory();
  const bool on_host = memory == nullptr;
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<StateArena> arena,
                          MakeArena(model, context->options, *context->memory,
                                    context->recycler, on_clean, std::move(memory)));
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
    : inbox_(*context),
      scope_(index, model, context, std::move(arena), on_host),
      ends_(scope_),
      starts_(scope_, inbox_, ends_),
      planner_(scope_, inbox_, ends_),
      device_(scope_, ends_, std::move(on_clean)),
      steps_(scope_, inbox_, ends_, device_, stop_now_),
      states_(scope_, inbox_, ends_) {}

ModelRunner::~ModelRunner() { Stop(); }

void ModelRunner::Stop() {
  stop_now_ = true;
  inbox_.Stop();
  if (thread_.joinable()) thread_.join();
}

ModelStats ModelRunner::Stats() const {
  const EngineContext& context = *scope_.context;
  ModelStats stats{.model = model().facts.name,
                   .architecture = model().facts.architecture,
                   .max_waiting = context.options.max_queue,
                   .session_capacity = context.options.sessions,
                   .sessions = context.directory.size(scope_.index),
                   .sessions_stored = context.directory.stored(scope_.index),
                   .weight_bytes = model().decoder->weight_bytes(),
                   .state_on_host = state_on_host(),
                   .state_capacity_bytes = scope_.capacity_bytes};
  inbox_.Describe(stats, context.options.clock->Now(), context.ProgressLimit());
  return stats;
}

void ModelRunner::OnStreamEvent(const std::shared_ptr<Call>& call, StreamEvent event) {
  switch (event) {
    case StreamEvent::kSpace:
      return inbox_.Wake();
    case StreamEvent::kEnd:
      // One that was cancelled first is cut, and released, by the runner.
      if (call->stream->cancelled() || !call->release_on_end.exchange(false)) return;
      call->delivery.unused = call->session->history.TakeUnused();
      inbox_.HandOver(call);
      scope_.context->directory.calls().Release(*call->session, /*taken=*/true);
      return;
    case StreamEvent::kCancelled:
      return inbox_.Cancel(call);
  }
}

void ModelRunner::Forget(std::shared_ptr<Session> session) {
  session->forgotten = true;
  scope_.context->directory.calls().PostTurn(*session);
  inbox_.Forget(std::move(session));
}

bool ModelRunner::GiveUp(int64_t bytes) {
  if (!scope_.states.Ask(bytes)) return false;
  inbox_.Wake();
  return true;
}

void ModelRunner::Run() {
  while (Await()) {
    try {
      Round();
    } catch (const std::exception& e) {
      // Memory ran out in the bookkeeping: these calls end, the runner goes on.
      scope_.callbacks.Add(LogCallback("runner_round_failed", e.what()));
      EndAll(OutOfMemoryError());
    }
  }
  const absl::Status draining = CatchOutOfMemory({}, engine_errors::Draining);
  EndAll(draining);
  // All that have come: Do refuses those from Stop on.
  for (; !mail_.tasks.empty(); mail_.tasks.pop_front()) {
    mail_.tasks.front()->Refuse(draining);
  }
  scope_.context->turns.Leave(scope_.turn);
}

bool ModelRunner::AwaitConsumersWithTheTurn() {
  if (!scope_.calls.AnyRuns()) return false;
  PoolTurns& turns = scope_.context->turns;
  const std::chrono::nanoseconds most = turns.Patience(scope_.turn);
  if (most.count() == 0) return false;
  const auto begin = std::chrono::steady_clock::now();
  const bool woken = inbox_.AwaitFor(most);
  turns.Paused(scope_.turn, std::chrono::steady_clock::now() - begin, !woken);
  return woken;
}

bool ModelRunner::Await() {
  if (!busy_) {
    if (!AwaitConsumersWithTheTurn()) scope_.context->turns.Leave(scope_.turn);
    scope_.last_step_end.reset();
  }
  const std::optional<Time> due = busy_ ? std::nullopt : NextDue();
  return inbox_.Await(busy_ || scope_.states.unfinished(), due, mail_);
}

std::optional<ModelRunner::Time> ModelRunner::NextDue() const {
  const RunnerCalls& calls = scope_.calls;
  std::optional<Time> due = scope_.restart_at;
  const auto idle = scope_.context->options.idle_timeout;
  for (const auto& call : calls.running) SetEarlier(due, scope_.DueOf(*call));
  SetEarlier(due, calls.stalled_counts.due);
  if (!calls.delivering.empty()) {
    SetEarlier(due, scope_.FromIdle(*calls.delivering.front()->delivery.stalled_since +
                                    std::min(CallEnds::kUnread, idle)));
  }
  if (!calls.unread.empty()) {
    SetEarlier(due,
               scope_.FromIdle(*calls.unread.front()->delivery.stalled_since + idle));
  }
  return due;
}

void ModelRunner::Round() {
  RunnerCalls& calls = scope_.calls;
  scope_.round = scope_.context->options.clock->Now();
  scope_.idle_round =
      scope_.context->options.idle_clock ? scope_.IdleNow() : scope_.round;
  const std::optional<Time> due = calls.stalled_counts.due;
  if (std::exchange(mail_.woken, false) || (due && *due <= scope_.round)) {
    scope_.LookAtStalled();
  }
  scope_.states.BeginRound();
  scope_.unblocked = false;
  Receive();
  DoTasks();
  // What others have asked for. In any case: who asked is woken after it.
  if (scope_.states.GiveUpAsked()) scope_.context->recycler.GiveUpReserves();
  for (const auto& call : calls.running) starts_.TakeInput(*call);
  starts_.EndDue();
  ends_.EndDue();
  if (scope_.restart_at) {
    const bool there = device_.Restore();
    inbox_.SignProgress();
    while (!there && !calls.starting.empty()) {
      ends_.EndStarting(calls.starting.front(), CatchOutOfMemory({}, DeviceLost));
    }
  }
  bool admitted = false;
  while (true) {
    planner_.Plan();
    // Blocks go to calls that pause before they go to new ones.
    if (!planner_.starved() && starts_.AdmitStarting()) {
      admitted = true;
    } else if (!planner_.chunks().empty() || !planner_.ResolveStarvation()) {
      break;
    }
  }
  // What has changed so far need not wait for the step.
  const bool waits =
      static_cast<int64_t>(calls.starting.size()) != scope_.counts.running.starting;
  if (admitted || waits || calls.endings > 0 || !scope_.callbacks.empty()) Publish();
  busy_ = !planner_.chunks().empty() || scope_.stepper.under_way() > 0;
  if (busy_) steps_.Run(planner_.chunks());
  Publish();
}

void ModelRunner::Receive() {
  for (RunnerInbox::Input& input : mail_.inputs) {
    Call& call = *input.call;
    if (call.phase != Call::Phase::kWaiting && call.phase != Call::Phase::kRunning) {
      continue;
    }
    call.scoring->Receive(input.pieces, input.tokens);
    if (call.stream->space() > 0) call.delivery.stalled_since.reset();
  }
  mail_.inputs.clear();
  RunnerCalls::List& starting = scope_.calls.starting;
  starting.splice(starting.end(), mail_.started);
  for (; !mail_.forgotten.empty(); mail_.forgotten.pop_front()) {
    ends_.HandleForgotten(mail_.forgotten.front());
    scope_.callbacks.Add(std::move(mail_.forgotten.front()));
  }
  for (; !mail_.consumed.empty(); mail_.consumed.pop_front()) {
    ends_.HandleConsumerEnd(mail_.consumed.front());
    scope_.callbacks.Add(std::move(mail_.consumed.front()));
  }
}

void ModelRunner::DoTasks() {
  if (mail_.tasks.empty()) return;
  steps_.Finish();
  for (; !mail_.tasks.empty(); mail_.tasks.pop_front()) {
    StateTask& task = *mail_.tasks.front();
    try {
      task.Run(states_);
    } catch (const std::bad_alloc&) {
      task.Refuse(OutOfMemoryError());
    }
    scope_.callbacks.Add(std::move(mail_.tasks.front()));
  }
}

void ModelRunner::CountForPublish() {
  const RunnerCalls& calls = scope_.calls;
  RunnerCounts& counts = scope_.counts;
  AdmissionQueue::Running& running = counts.running;
  const LoadEstimate& estimate = inbox_.estimate();
  running = {};
  counts.running_named = calls.stalled_counts.named;
  counts.stalled = static_cast<int64_t>(calls.stalled.size());
  counts.due = calls.stalled_counts.due;
  SetEarlier(counts.due, calls.stalled_counts.deadline);
  bool starved = false;
  for (const auto& call : calls.running) {
    SetEarlier(counts.due, call->deadline);
    SetEarlier(counts.due, scope_.DueOf(*call));
    starved = starved || call->steps.starved;
    counts.running_named += call->nameless() ? 0 : 1;
    if (call->delivery.stalled_since) ++counts.stalled;
    if (call->delivery.stalled_since || call->steps.starved) continue;
    running.load.Add(estimate.Left(call->expected, call->steps.computed_tokens));
  }
  counts.device_lost = scope_.restart_at.has_value();
  running.starting = static_cast<int64_t>(calls.starting.size());
  for (const auto& call : calls.starting) {
    SetEarlier(counts.due, call->deadline);
    running.starting_work += call->expected;
  }
  if (calls.starting.empty() && !starved) {
    counts.blocked_since.reset();
  } else if (scope_.unblocked || !counts.blocked_since) {
    counts.blocked_since = scope_.round;
  }
  counts.unread = static_cast<int64_t>(calls.unread.size());
  counts.delivering =
      static_cast<int64_t>(calls.ending.size() + calls.delivering.size()) +
      counts.unread;
  // Blocks being recycled belong to no session. Read first, since their number only
  // falls.
  const Residency& states = scope_.states;
  const auto& pools = states.arena().pools();
  const int64_t recycling =
      pools.blocks_recycling() * BlockBytes(states.arena().spec());
  counts.state_bytes = std::max<int64_t>(0, pools.bytes_used() - recycling);
  counts.running_state_bytes = std::min(counts.state_bytes, states.SlotBytes());
  counts.shadow_bytes = pools.shadow_bytes();
  // Those of calls that deliver rest, too.
  counts.resting = std::max<int64_t>(0, states.resting_named() - counts.delivering);
}

void ModelRunner::Publish() {
  CountForPublish();
  const StepLoop::Measured measured = steps_.TakeMeasured();
  inbox_.Publish(scope_, measured.interval, measured.tokens);
  ends_.FinishEnded();
  scope_.context->callbacks.Post(scope_.callbacks);
  scope_.context->callbacks.PostLater(scope_.later);
}

void ModelRunner::EndAll(const absl::Status& status) {
  RunnerCalls& calls = scope_.calls;
  // What they give is dropped.
  while (scope_.stepper.under_way() > 0) {
    scope_.stepper.Complete(scope_.states.arena());
  }
  scope_.LookAtStalled();
  if (scope_.stepper.lost()) device_.Lose();
  ends_.EndWaiting();
  Receive();
  planner_.chunks().clear();
  busy_ = false;
  inbox_.RefuseAll(status);
  while (!calls.starting.empty()) ends_.EndStarting(calls.starting.front(), status);
  while (!calls.running.empty()) ends_.End(calls.running.back(), status);
  Publish();
}

}  // namespace mnemon
