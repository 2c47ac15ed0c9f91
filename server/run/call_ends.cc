// SPDX-License-Identifier: MIT
#include "server/run/call_ends.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "base/out_of_memory.h"
#include "server/requests/engine_errors.h"
#include "server/run/durable_sessions.h"
#include "server/run/newest_call.h"
#include "server/sessions/session_journal.h"

namespace mnemon {
namespace {

// Where memory has run out the call ends with that.
absl::Status SessionDeleted() {
  return CatchOutOfMemory({}, engine_errors::SessionDeleted);
}
absl::Status CallerIdle(std::chrono::milliseconds idle) {
  return CatchOutOfMemory({}, [&] { return engine_errors::CallerIdle(idle); });
}

// Whether the prompt stays in the history when the call is cut.
bool KeepsPrompt(const Call& call) {
  return !call.rolls_back() || call.cut_keeps_all();
}

// Whether a call that ended so can be resumed, and then goes on.
bool CanGoOn(const absl::Status& status) {
  return absl::IsUnavailable(status) || engine_errors::IsNoFreeBlocks(status);
}

// The error with what has become of the prompt.
absl::Status ToldOfPrompt(const Call& call, absl::Status status, bool taken) {
  if (status.ok() || absl::IsCancelled(status) || call.stateless() || call.scoring) {
    return status;
  }
  return CatchOutOfMemory({}, [&] {
    return engine_errors::WithPromptTaken(status, taken,
                                          call.resume.record && CanGoOn(status));
  });
}

}  // namespace

void CallEnds::End(const std::shared_ptr<Call>& call, absl::Status status,
                   std::optional<FinishFacts> facts) {
  RunnerCalls& calls = scope_.calls;
  if (call->steps.under_way.steps > 0) {
    if (call->delivery.end_later) return;
    call->delivery.end_later = {std::move(status), std::move(facts)};
    ++calls.waiting_ends;
    return;
  }
  const std::shared_ptr<Call> ended = call;  // it leaves the list it may be part of
  Session& session = *ended->session;
  const Session* const holds = ended->holds();
  if (status.ok() && (session.forgotten || (holds && holds->forgotten))) {
    // Removed in this round, before its caller closed the input, for example.
    status = SessionDeleted();
    facts.reset();
  }
  scope_.stepper.EndDraws(*ended);
  GiveBackPermit(*ended);
  const bool cancelled = ended->cancelled();
  const bool taken = cancelled ? KeepsPrompt(*ended) : ended->gave();
  status = ToldOfPrompt(*ended, std::move(status), taken);
  if (facts && !(ended->resume.record && ended->resume.record->end)) {
    const Call::Time now = scope_.context->options.clock->Now();
    const Call::Time prompt_done = ended->progress.prompt_done.value_or(now);
    facts->prompt_time = prompt_done - ended->progress.admission;
    facts->generation_time = now - prompt_done;
    if (!ended->scoring &&
        calls.ended_generated.size() < calls.ended_generated.capacity()) {
      calls.ended_generated.push_back(ended->progress.generated);
    }
  }
  SetEnding(*ended, status, std::move(facts));
  SlotState& state = session.in_runner.state;
  StateArena& arena = scope_.states.arena();
  if (ended->stateless() || session.forgotten) {
    scope_.SetOver(*ended);
    if (ended->commits() && status.ok() && !cancelled) Join(*ended);
    if (ended->keeps_state && status.ok()) {
      state.Rest(arena, session.history.size());
      ++scope_.pins;
      scope_.states.UpdateBytes(session.in_runner);
    } else {
      scope_.states.Drop(session.in_runner);
    }
    if (ended->stateless()) EndCopy(*ended);
  } else if (cancelled) {
    CutToDelivered(*ended);
  } else if (!taken && !status.ok()) {
    RollBack(*ended);
    if (CanGoOn(status)) {
      RememberDetached(*scope_.context, *ended);
    } else if (ended->resume.record) {
      scope_.context->directory.calls().SetNewestCall(session, nullptr);
    }
    Release(*ended, /*taken=*/false);
  } else {
    state.CutBack(arena, session.history.size());
    scope_.states.UpdateBytes(session.in_runner);
    if (!CanGoOn(status)) RememberEnd(*scope_.context, *ended);
    if (ended->runs_on()) return Release(*ended, /*taken=*/true);
    calls.ending.splice(calls.ending.end(), calls.running, ended->at);
    ended->phase = Call::Phase::kDelivering;
    scope_.states.SetResting(StateOf(ended->session));
    ended->delivery.stalled_since = scope_.IdleNow();
    ended->delivery.delivered_then = ended->stream->delivered();
    ended->release_on_end = true;
    scope_.states.KeepSlot(session.in_runner, *ended->delivery.stalled_since);
  }
}

void CallEnds::SetEnding(Call& call, absl::Status status,
                         std::optional<FinishFacts> facts) {
  call.delivery.ending = {std::move(status), std::move(facts)};
  ++scope_.calls.endings;
}

void CallEnds::EndWaiting() {
  RunnerCalls& calls = scope_.calls;
  for (auto next = calls.running.begin();
       calls.waiting_ends > 0 && next != calls.running.end();) {
    const std::shared_ptr<Call> call = *next++;
    if (!call->delivery.end_later || call->steps.under_way.steps > 0) continue;
    --calls.waiting_ends;
    CallDelivery::Ending end = *std::exchange(call->delivery.end_later, std::nullopt);
    End(call, std::move(end.status), std::move(end.facts));
  }
}

void CallEnds::EndStarting(std::shared_ptr<Call> call, absl::Status status) {
  const std::shared_ptr<Session> session = call->session;
  SetEnding(*call, std::move(status));
  GiveBackPermit(*call);
  scope_.SetOver(*call);
  if (call->stateless() || session->forgotten) {
    scope_.states.Drop(session->in_runner);
    if (call->stateless()) EndCopy(*call);
  } else {
    call->delivery.unused = session->history.TakeUnused();
    RememberStream(*scope_.context, *call);
    Rest(session);
    scope_.context->directory.calls().Release(*session, /*taken=*/false);
  }
}

void CallEnds::Abort(const std::shared_ptr<Call>& call, const absl::Status& status) {
  // Its consumer has taken the end, and releases the session, or has cancelled it.
  if (!call->stream->StopDelivery()) return;
  if (call->phase != Call::Phase::kRunning) return EndDelivering(*call, status);
  if (call->runs_on()) return LeaveConsumer(*call, status);
  End(call, status);
}

void CallEnds::EndDelivering(Call& call, const absl::Status& status) {
  call.release_on_end = false;
  const bool taken = KeepsPrompt(call);
  CutToDelivered(call);
  SetEnding(call, ToldOfPrompt(call, status, taken));
}

void CallEnds::LeaveConsumer(Call& call, const absl::Status& status) {
  scope_.Finish(call, ToldOfPrompt(call, status, /*taken=*/true));
  ReleaseEnd(call);
  RememberDelivered(*scope_.context, call);
}

void CallEnds::LeaveDelivered(Call& call) {
  scope_.SetOver(call);
  Rest(call.session);
  StoreTurn(scope_, call.session, /*ends=*/true);
}

void CallEnds::HandleConsumerEnd(const std::shared_ptr<Call>& call) {
  const bool ended = call->ended_by_consumer();
  if (ended && call->phase == Call::Phase::kOver && !call->delivery.ending) {
    // Its session was removed while it delivered.
    scope_.Finish(*call, engine_errors::Cancelled());
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
    if (ended) SetEnding(*call, engine_errors::Cancelled());
  }
}

void CallEnds::HandleForgotten(const std::shared_ptr<Session>& session) {
  Call* const holder = session->in_runner.call;
  // Nobody changes the list of a session that was removed.
  for (const SessionCheckpoint& checkpoint : session->entry.checkpoints) {
    scope_.states.Drop(checkpoint.at->in_runner);
  }
  if (holder != nullptr && holder->phase == Call::Phase::kRunning) {
    return End(holder->shared_from_this(), SessionDeleted());
  }
  // What was generated is still delivered.
  if (holder != nullptr) scope_.SetOver(*holder);
  scope_.states.Drop(session->in_runner);
}

void CallEnds::EndDue() {
  const auto idle = scope_.context->options.idle_timeout;
  RunnerCalls& calls = scope_.calls;
  for (auto next = calls.running.begin(); next != calls.running.end();) {
    const std::shared_ptr<Call> call = *next++;
    const auto time_up = call->time_up();
    if (call->delivery.end_later) continue;
    if (call->cancelled()) {
      End(call, engine_errors::Cancelled());
    } else if (call->commits() && call->scoring->source->forgotten) {
      End(call, SessionDeleted());
    } else if (time_up && *time_up <= scope_.round) {
      End(call, absl::OkStatus(),
          FinishFacts{.reason = FinishReason::kTimeLimit,
                      .generated_tokens = call->progress.generated});
    } else if (call->scoring && scope_.NothingToDo(*call)) {
      End(call, absl::OkStatus(), FinishFacts{});
    } else if (call->delivery.stalled_since &&
               *call->delivery.stalled_since + idle <= scope_.idle_round &&
               RunnerScope::WaitsForCaller(*call)) {
      Abort(call, CallerIdle(idle));
    }
  }
  EndDueDelivering();
}

void CallEnds::EndDueDelivering() {
  const Call::Time now = scope_.idle_round;
  const auto idle = scope_.context->options.idle_timeout;
  RunnerCalls::List& delivering = scope_.calls.delivering;
  RunnerCalls::List& unread = scope_.calls.unread;
  while (!delivering.empty() &&
         *delivering.front()->delivery.stalled_since + std::min(kUnread, idle) <= now) {
    delivering.front()->delivery.unread = true;
    unread.splice(unread.end(), delivering, delivering.begin());
  }
  while (!unread.empty()) {
    const std::shared_ptr<Call> call = unread.front();
    if (*call->delivery.stalled_since + idle > now) return;
    const int64_t delivered = call->stream->delivered();
    if (std::exchange(call->delivery.delivered_then, delivered) == delivered) {
      Abort(call, CallerIdle(idle));
    }
    // It has read, or ends by itself.
    if (call->phase == Call::Phase::kDelivering) {
      call->delivery.stalled_since = now;
      call->delivery.unread = false;
      delivering.splice(delivering.end(), unread, call->at);
      scope_.states.KeepSlot(call->session->in_runner, now);
    }
  }
}

void CallEnds::GiveWay(Session& session, const std::string& request_id) {
  if (session.in_runner.call == nullptr) return;
  const std::shared_ptr<Call> call = session.in_runner.call->shared_from_this();
  const bool resumed = call->resume.record && call->params->request_id == request_id;
  if (!resumed && !call->runs_on()) return;
  if (call->phase == Call::Phase::kDelivering &&
      !call->release_on_end.exchange(false)) {
    return;  // its consumer has taken the end, and releases the session
  }
  call->taken_over = resumed;
  call->goes_on = call->goes_on && resumed;
  // One that ends is no longer delivered, nor one that was cancelled.
  static_cast<void>(call->stream->StopDelivery());
  const absl::Status status = CatchOutOfMemory({}, engine_errors::StreamResumed);
  if (call->phase == Call::Phase::kRunning) return End(call, status);
  EndDelivering(*call, status);
}

void CallEnds::FinishStream(Call& call) {
  if (!call.delivery.ending) return;
  CallDelivery::Ending end = *std::exchange(call.delivery.ending, std::nullopt);
  scope_.Finish(call, std::move(end.status), std::move(end.facts),
                /*held=*/call.phase == Call::Phase::kDelivering);
}

void CallEnds::FinishEnded() {
  RunnerCalls& calls = scope_.calls;
  while (!calls.ending.empty()) {
    Call& call = *calls.ending.front();
    FinishStream(call);
    if (const auto& journal = call.session->journal) journal->EndTurn();
    calls.delivering.splice(calls.delivering.end(), calls.ending, calls.ending.begin());
  }
  for (const auto& call : calls.over) {
    FinishStream(*call);
    // It delivers nothing more, and its session may have another call already.
    ReleaseEnd(*call);
  }
  calls.endings = 0;
  for (; !calls.over.empty(); calls.over.pop_front()) {
    scope_.callbacks.Add(std::move(calls.over.front()));
  }
}

void CallEnds::ReleaseEnd(Call& call) {
  if (call.delivery.before) {
    const std::shared_ptr<Session>& source = call.scoring->source;
    try {
      return scope_.context->durable->Settle(
          source, WaiterKind::kRelease,
          *std::exchange(call.delivery.before, std::nullopt),
          [stream = call.stream](const absl::Status& status) {
            ReleaseEndOf(*stream, status);
          });
    } catch (const std::bad_alloc&) {
      // What is written is synced with the next turn.
      scope_.context->directory.calls().Release(*source, /*taken=*/true);
    }
  }
  constexpr auto kAll = std::numeric_limits<int64_t>::max();
  scope_.Notify(call, call.stream->Release(kAll, /*finish=*/true, scope_.round));
}

void CallEnds::CutToDelivered(Call& call) {
  Session& session = *call.session;
  const bool taken = KeepsPrompt(call);
  if (!taken) {
    RollBack(call);
  } else {
    if (!call.cut_keeps_all()) {
      session.history.Cut(std::min(session.history.size(), call.cut_size()));
    }
    session.in_runner.state.CutBack(scope_.states.arena(), session.history.size());
  }
  if (call.ended_by_consumer() && call.resume.record) {
    scope_.context->directory.calls().SetNewestCall(session, nullptr);
  } else if (!session.forgotten) {
    RememberDetached(*scope_.context, call);
  }
  Release(call, taken);
}

void CallEnds::RollBack(Call& call) {
  Session& session = *call.session;
  session.history.Cut(call.progress.base);
  if (session.in_runner.state.can_roll_back_call()) {
    session.in_runner.state.RollBackCall(scope_.states.arena());
  } else {
    scope_.states.Drop(session.in_runner);
  }
}

void CallEnds::Join(Call& call) {
  SessionDirectory& directory = scope_.context->directory;
  Session& copy = *call.session;
  const std::shared_ptr<Session>& source = call.scoring->source;
  copy.in_runner.state.Rest(scope_.states.arena(), copy.history.size());
  if (source->journal) {
    call.delivery.before = {.tokens = call.progress.base,
                            .version = source->history.version(),
                            .newest_call = directory.calls().NewestCall(*source)};
  }
  // First: a record without the history lets the call be made again, a history without
  // the record would let it be joined twice.
  directory.calls().SetJoined(*source, call.progress.base);
  // Which no call goes on with any more.
  directory.calls().SetNewestCall(*source, nullptr);
  source->history.Become(copy.history);
  scope_.states.Drop(source->in_runner);
  source->in_runner.state.Put(copy.in_runner.state.whole());
  Rest(source);
}

void CallEnds::EndCopy(const Call& call) {
  if (!call.commits() || call.delivery.before) return;
  scope_.context->directory.calls().Release(*call.scoring->source, /*taken=*/false);
}

void CallEnds::GiveBackPermit(const Call& call) {
  ++scope_.calls.ended_permits;
  if (!call.nameless()) ++scope_.calls.ended_named;
  ResidentState& state = call.session->in_runner;
  state.reserved_blocks = 0;
  scope_.states.StopUsing(state);
}

void CallEnds::Release(Call& call, bool taken) {
  const std::shared_ptr<Session> session = call.session;
  scope_.SetOver(call);
  if (session->forgotten) {
    scope_.states.Drop(session->in_runner);
    return;
  }
  call.delivery.unused = session->history.TakeUnused();
  Rest(session);
  scope_.context->directory.calls().Release(*session, taken);
  if (taken) StoreTurn(scope_, session, /*ends=*/true);
}

void CallEnds::Rest(const std::shared_ptr<Session>& session) {
  if (!session->forgotten) scope_.states.Rest(StateOf(session));
}

}  // namespace mnemon
