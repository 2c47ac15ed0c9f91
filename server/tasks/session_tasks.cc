// SPDX-License-Identifier: MIT
#include "server/tasks/session_tasks.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/requests/engine_errors.h"
#include "server/run/runner_states.h"
#include "server/waiting/callback_threads.h"

namespace mnemon {
namespace {

template <class T>
class PostedAnswer final : public Callback {
 public:
  explicit PostedAnswer(OnAnswer<T> on_done) : on_done_(std::move(on_done)) {}

  void Set(absl::StatusOr<T> outcome) { outcome_ = std::move(outcome); }
  void RunCallback() override {
    if (const auto answer = std::exchange(on_done_, {})) answer(std::move(outcome_));
  }

 private:
  OnAnswer<T> on_done_;
  absl::StatusOr<T> outcome_ = absl::InternalError("no outcome");
};

template <class T, class Work>
class AnsweringTask final : public StateTask {
 public:
  AnsweringTask(OnAnswer<T> on_done, Work work, CallbackThreads* threads)
      : work_(std::move(work)),
        threads_(threads),
        answer_(std::make_shared<PostedAnswer<T>>(std::move(on_done))) {}

  void Run(RunnerStates& states) override {
    answer_->Set(work_(states));
    threads_ != nullptr ? threads_->Post(answer_) : states.Post(answer_);
  }
  void Refuse(const absl::Status& status) override {
    answer_->Set(status);
    answer_->RunCallback();
  }

 private:
  Work work_;
  CallbackThreads* const threads_;
  const std::shared_ptr<PostedAnswer<T>> answer_;
};

// Answers with what work(states) returns, an absl::StatusOr<T>, on one of `threads`,
// null: a callback thread; without `on_done` it does not. The answer is made with the
// task: where memory runs out there is still one.
template <class T, class Work>
std::shared_ptr<StateTask> MakeTask(OnAnswer<T> on_done, Work work,
                                    CallbackThreads* threads = nullptr) {
  return std::make_shared<AnsweringTask<T, Work>>(std::move(on_done), std::move(work),
                                                  threads);
}

// Makes an empty session the first `position` tokens of another, absent: all that a
// fork takes over.
absl::Status Take(RunnerStates& states, const std::shared_ptr<Session>& source,
                  std::optional<int64_t> position, Session& to,
                  bool undelivered = false) {
  Session& from = *source;
  if (from.forgotten) return engine_errors::NotFound(from.id);
  const int64_t most = undelivered ? from.history.size() : states.PositionOf(from);
  const int64_t tokens = position.value_or(most);
  if (tokens < 0 || tokens > most) return engine_errors::BeyondHistory(tokens, most);
  if (!to.history.ShareOf(from.history, tokens)) {
    return states.context().MemoryLimit(TokenHistory::kPieceBytes);
  }
  SavedState whole;
  states.BringBack(source);
  MNEMON_RETURN_IF_ERROR(from.in_runner.state.Share(states.arena(), tokens, whole));
  if (whole.empty()) return absl::OkStatus();
  to.in_runner.state.Put(whole);
  to.in_runner.state.CutAtRest(states.arena(), tokens);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Session>> Insert(
    RunnerStates& states, const std::shared_ptr<Session>& session) {
  states.Rest(session);
  auto made = states.directory().Insert(session);
  if (!made.ok() || *made != session) states.DropState(*session);
  return made;
}

// Releases the copy of a session that was kept for a change.
void UnpinAndDrop(RunnerStates& states, Session& session) {
  states.Unpin();
  states.DropState(session);
}

absl::StatusOr<bool> GiveWay(RunnerStates& states, Session& session,
                             const std::string& request_id, uint64_t resume_number) {
  SessionCalls& calls = states.directory().calls();
  const bool resumes = !request_id.empty();
  // What holds the session then may be the newer one.
  if (resumes && !calls.IsNewestResume(session, resume_number)) return true;
  states.GiveWay(session, request_id);
  const std::shared_ptr<Call> resumer = resumes ? calls.ResumerOf(session) : nullptr;
  if (resumer != nullptr && session.in_runner.call == nullptr)
    states.Supersede(resumer);
  const auto newest = calls.NewestCall(session);
  if (newest == nullptr || newest->params->request_id == request_id) return true;
  MNEMON_ASSIGN_OR_RETURN(const bool held, states.Hold(session));
  if (!held) return true;
  const absl::Status status = CatchOutOfMemory({}, [&] {
    // A call that is detached ends at its last delivered token.
    const auto record = calls.NewestCall(session);
    if (record != nullptr && record->cuts(session.history.size())) {
      session.history.Cut(*record->delivered);
      session.in_runner.state.CutAtRest(states.arena(), *record->delivered);
    }
    return absl::OkStatus();
  });
  calls.Release(session, /*taken=*/false);
  MNEMON_RETURN_IF_ERROR(status);
  return true;
}

void TakeBack(RunnerStates& states, const std::shared_ptr<Session>& session,
              const SessionBefore& before) {
  TokenHistory& history = session->history;
  if (Session* const copy = before.copy.get()) {
    history.Cut(history.CommonPrefix(copy->history));
    history.Become(copy->history);
    states.DropState(*session);
    if (copy->in_runner.state.has_state())
      session->in_runner.state.Put(copy->in_runner.state.whole());
  } else {
    history.Cut(before.tokens);
    session->in_runner.state.CutAtRest(states.arena(), before.tokens);
  }
  history.SetVersion(before.version);
  states.directory().calls().TakeBack(*session, before);
  states.Rest(session);
}

struct Rewind {
  const std::shared_ptr<Session> session;
  const std::shared_ptr<Session> copy;
  const RewindSessionRequest request;
  std::optional<SessionBefore> before = std::nullopt;

  absl::StatusOr<std::optional<SessionBefore>> operator()(RunnerStates& states) {
    SessionCalls& calls = states.directory().calls();
    states.GiveWay(*session, "");
    MNEMON_ASSIGN_OR_RETURN(const bool held, states.Hold(*session));
    if (!held) return std::nullopt;
    const absl::Status status = CatchOutOfMemory({}, [&] { return Run(states); });
    if (status.ok()) {
      if (copy == nullptr) calls.Release(*session, /*taken=*/false);
      return std::move(before);
    }
    if (before) {
      calls.SetNewestCall(*session, before->newest_call);
      if (before->copy) UnpinAndDrop(states, *copy);
    }
    calls.Release(*session, /*taken=*/false);
    return status;
  }

  absl::Status Run(RunnerStates& states) {
    SessionDirectory& directory = states.directory();
    if (!request.etag.empty() && request.etag != directory.updates().EtagOf(*session)) {
      return engine_errors::EtagMismatch(session->id);
    }
    const TokenHistory& history = session->history;
    const auto newest = directory.calls().NewestCall(*session);
    const int64_t size =
        newest && newest->cuts(history.size()) ? *newest->delivered : history.size();
    std::optional<SessionCheckpoint> checkpoint;
    if (const auto* const id = std::get_if<std::string>(&request.target)) {
      MNEMON_ASSIGN_OR_RETURN(checkpoint, directory.checkpoints().Find(*session, *id));
    } else if (const int64_t tokens = std::get<int64_t>(request.target);
               tokens < 0 || tokens > size) {
      return engine_errors::BeyondHistory(tokens, size);
    }
    MNEMON_RETURN_IF_ERROR(Keep(states));
    directory.calls().SetNewestCall(*session, nullptr);
    if (checkpoint) {
      MNEMON_RETURN_IF_ERROR(Become(states, *checkpoint->at, size));
    } else {
      Cut(states, std::get<int64_t>(request.target));
    }
    before->scored_from = directory.calls().ForgetScored(*session);
    return absl::OkStatus();
  }

  absl::Status Keep(RunnerStates& states) {
    TokenHistory& history = session->history;
    if (copy != nullptr && !copy->history.ShareOf(history, history.size())) {
      return states.context().MemoryLimit(TokenHistory::kPieceBytes);
    }
    before = {.tokens = history.size(),
              .copy = copy,
              .version = history.version(),
              .newest_call = states.directory().calls().NewestCall(*session),
              .scored_from = {}};
    if (copy == nullptr) return absl::OkStatus();
    states.Pin(*copy);
    SavedState whole;
    // Without memory for it it would be computed again.
    if (session->in_runner.state.Share(states.arena(), history.size(), whole).ok() &&
        !whole.empty()) {
      copy->in_runner.state.Put(whole);
    }
    return absl::OkStatus();
  }

  // `size`: what of the history counts.
  absl::Status Become(RunnerStates& states, Session& kept, int64_t size) {
    TokenHistory& history = session->history;
    const int64_t common = std::min(size, history.CommonPrefix(kept.history));
    std::vector<int32_t> rest(static_cast<size_t>(kept.history.size() - common));
    kept.history.Read(common, rest);
    SavedState whole;
    MNEMON_RETURN_IF_ERROR(
        kept.in_runner.state.Share(states.arena(), kept.history.size(), whole));
    history.Change(common, rest);
    Replace(states, whole);
    return absl::OkStatus();
  }

  // The state goes on from the newest there is: its own, or that of a checkpoint before
  // the histories part.
  void Cut(RunnerStates& states, int64_t tokens) {
    // First: it takes memory.
    const auto checkpoints = states.directory().checkpoints().Of(*session);
    session->history.Cut(tokens);
    session->in_runner.state.CutAtRest(states.arena(), tokens);
    const Session* best = nullptr;
    int64_t most = session->in_runner.state.computed(states.arena());
    for (const SessionCheckpoint& checkpoint : checkpoints) {
      const Session& kept = *checkpoint.at;
      const int64_t computed = kept.in_runner.state.computed(states.arena());
      if (computed <= most || computed >= tokens ||
          session->history.CommonPrefix(kept.history) < computed) {
        continue;
      }
      best = &kept;
      most = computed;
    }
    if (best == nullptr) return;
    SavedState whole;
    const absl::Status shared = CatchOutOfMemory({}, [&] {
      return best->in_runner.state.Share(states.arena(), best->history.size(), whole);
    });
    // Without memory for it more is computed again.
    if (shared.ok()) Replace(states, whole);
  }

  void Replace(RunnerStates& states, SavedState& whole) {
    states.DropState(*session);
    if (whole.empty()) return;
    session->in_runner.state.Put(whole);
    states.Rest(session);
  }
};

}  // namespace

std::shared_ptr<StateTask> MakeForkTask(std::shared_ptr<Session> parent,
                                        std::shared_ptr<Session> child,
                                        std::optional<int64_t> position,
                                        OnAnswer<std::shared_ptr<Session>> on_done) {
  using Made = absl::StatusOr<std::shared_ptr<Session>>;
  return MakeTask(std::move(on_done), [=](RunnerStates& states) -> Made {
    MNEMON_RETURN_IF_ERROR(Take(states, parent, position, *child));
    return Insert(states, child);
  });
}

std::shared_ptr<StateTask> MakeReadTask(std::shared_ptr<Session> session,
                                        std::optional<int64_t> first, int64_t tokens,
                                        OnAnswer<HistoryPart> on_done) {
  using Part = absl::StatusOr<HistoryPart>;
  return MakeTask(std::move(on_done), [=](RunnerStates& states) -> Part {
    if (session->forgotten) return engine_errors::NotFound(session->id);
    HistoryPart part{.size = states.PositionOf(*session)};
    part.first = first.value_or(std::max<int64_t>(0, part.size - tokens));
    if (part.first < 0 || part.first > part.size) {
      return engine_errors::BeyondHistory(part.first, part.size, "first_index");
    }
    part.tokens.resize(static_cast<size_t>(std::min(tokens, part.size - part.first)));
    session->history.Read(part.first, part.tokens);
    return part;
  });
}

std::shared_ptr<StateTask> MakeEndCallTask(std::shared_ptr<Session> session,
                                           absl::Status status) {
  return MakeTask(OnAnswer<bool>(), [=](RunnerStates& states) -> absl::StatusOr<bool> {
    states.EndCall(*session, status);
    return true;
  });
}

std::shared_ptr<StateTask> MakeAdoptTask(std::shared_ptr<Session> session,
                                         uint64_t version,
                                         std::shared_ptr<Session> from,
                                         OnAnswer<bool> on_done) {
  return MakeTask(std::move(on_done),
                  [=](RunnerStates& states) -> absl::StatusOr<bool> {
                    SlotState& state = session->in_runner.state;
                    states.Unpin();
                    if (session->forgotten || session->in_runner.call != nullptr ||
                        state.has_state() || session->history.version() != version) {
                      states.DropState(*from);
                      return false;
                    }
                    state.Put(from->in_runner.state.whole());
                    state.CutAtRest(states.arena(), session->history.size());
                    states.Rest(session);
                    return state.has_state();
                  });
}

std::shared_ptr<StateTask> MakeCheckpointTask(std::shared_ptr<Session> session,
                                              SessionCheckpoint checkpoint,
                                              bool drawn_id,
                                              OnAnswer<SessionCheckpoint> on_done) {
  using Made = absl::StatusOr<SessionCheckpoint>;
  return MakeTask(std::move(on_done), [=](RunnerStates& states) -> Made {
    const std::shared_ptr<Session>& at = checkpoint.at;
    MNEMON_RETURN_IF_ERROR(Take(states, session, std::nullopt, *at));
    at->stored_tokens = at->history.size();
    states.Rest(at);
    auto made = states.directory().checkpoints().Add(*session, checkpoint, drawn_id);
    if (!made.ok() || made->at != at) states.DropState(*at);
    return made;
  });
}

std::shared_ptr<StateTask> MakeRewindTask(
    std::shared_ptr<Session> session, std::shared_ptr<Session> copy,
    const RewindSessionRequest& request,
    OnAnswer<std::optional<SessionBefore>> on_done) {
  return MakeTask(std::move(on_done),
                  Rewind{std::move(session), std::move(copy), request});
}

std::shared_ptr<StateTask> MakeTakeBackTask(std::shared_ptr<Session> session,
                                            SessionBefore before,
                                            OnAnswer<bool> on_done) {
  return MakeTask(std::move(on_done),
                  [=](RunnerStates& states) -> absl::StatusOr<bool> {
                    if (!session->forgotten) TakeBack(states, session, before);
                    if (before.copy) UnpinAndDrop(states, *before.copy);
                    return true;
                  });
}

std::shared_ptr<StateTask> MakeCopyTask(std::shared_ptr<Session> session,
                                        std::shared_ptr<Session> copy, CopyScope scope,
                                        OnAnswer<bool> on_done) {
  return MakeTask(std::move(on_done),
                  [=](RunnerStates& states) -> absl::StatusOr<bool> {
                    states.Pin(*copy);
                    if (scope.at_copy) scope.at_copy();
                    MNEMON_RETURN_IF_ERROR(
                        Take(states, session, std::nullopt, *copy, scope.undelivered));
                    return true;
                  });
}

std::shared_ptr<StateTask> MakeRoomTask(std::shared_ptr<Session> session,
                                        int64_t computed, OnAnswer<bool> on_done) {
  return MakeTask(std::move(on_done),
                  [=](RunnerStates& states) -> absl::StatusOr<bool> {
                    SavedState whole;
                    if (!states.MakeRoomFor(computed)) return false;
                    if (!states.arena().saved().MakeWhole(computed, whole).ok())
                      return false;
                    session->in_runner.state.Put(whole);
                    states.Pin(*session);
                    return true;
                  });
}

std::shared_ptr<StateTask> MakeInsertTask(std::shared_ptr<Session> session, bool pinned,
                                          OnAnswer<std::shared_ptr<Session>> on_done) {
  return MakeTask(std::move(on_done), [=](RunnerStates& states) {
    if (pinned) states.Unpin();
    return Insert(states, session);
  });
}

std::shared_ptr<StateTask> MakeGiveWayTask(std::shared_ptr<Session> session,
                                           std::string request_id,
                                           uint64_t resume_number,
                                           OnAnswer<bool> on_done) {
  return MakeTask(std::move(on_done), [=](RunnerStates& states) {
    return GiveWay(states, *session, request_id, resume_number);
  });
}

std::shared_ptr<StateTask> MakeDropTask(std::shared_ptr<Session> session,
                                        CallbackThreads& threads,
                                        OnAnswer<bool> on_done) {
  const auto drop = [=](RunnerStates& states) mutable -> absl::StatusOr<bool> {
    // Who answers finds nobody else with it: a session falls asleep that nobody has.
    const std::shared_ptr<Session> dropped = std::move(session);
    states.DropAtRest(*dropped);
    for (const SessionCheckpoint& kept :
         states.directory().checkpoints().Of(*dropped)) {
      states.DropAtRest(*kept.at);
    }
    return true;
  };
  return MakeTask(std::move(on_done), drop, &threads);
}

std::shared_ptr<StateTask> MakeUnpinTask(std::shared_ptr<Session> session) {
  return MakeTask(OnAnswer<bool>(), [=](RunnerStates& states) -> absl::StatusOr<bool> {
    UnpinAndDrop(states, *session);
    return true;
  });
}

}  // namespace mnemon
