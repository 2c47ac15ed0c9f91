// SPDX-License-Identifier: MIT
#include "server/tasks/session_tasks.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/requests/engine_errors.h"
#include "server/tasks/answering_task.h"

namespace mnemon {
namespace {

// Makes an empty session the first `position` tokens of another, absent: all that a
// fork takes over.
absl::Status Take(StateAccess& states, const std::shared_ptr<Session>& source,
                  std::optional<int64_t> position, const std::shared_ptr<Session>& to,
                  bool undelivered = false) {
  Session& from = *source;
  if (from.forgotten) return engine_errors::NotFound(from.id);
  const int64_t most = undelivered ? from.history.size() : states.PositionOf(from);
  const int64_t tokens = position.value_or(most);
  if (tokens < 0 || tokens > most) return engine_errors::BeyondHistory(tokens, most);
  if (!to->history.ShareOf(from.history, tokens)) {
    return states.MemoryLimit(TokenHistory::kPieceBytes);
  }
  SavedState whole;
  states.BringBack(source);
  MNEMON_RETURN_IF_ERROR(from.in_runner.state.Share(states.arena(), tokens, whole));
  if (whole.empty()) return absl::OkStatus();
  to->in_runner.state.Put(whole);
  to->in_runner.state.CutAtRest(states.arena(), tokens);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Session>> Insert(
    StateAccess& states, SessionDirectory& directory,
    const std::shared_ptr<Session>& session) {
  states.Rest(session);
  auto made = directory.Insert(session);
  if (!made.ok() || *made != session) states.DropState(*session);
  return made;
}

class ForkTask final : public AnsweringTask<std::shared_ptr<Session>> {
 public:
  ForkTask(std::shared_ptr<Session> parent, std::shared_ptr<Session> child,
           std::optional<int64_t> position, SessionDirectory& directory,
           OnAnswer<std::shared_ptr<Session>> on_done)
      : AnsweringTask(std::move(on_done)),
        parent_(std::move(parent)),
        child_(std::move(child)),
        position_(position),
        directory_(directory) {}

 private:
  absl::StatusOr<std::shared_ptr<Session>> Do(StateAccess& states) override {
    MNEMON_RETURN_IF_ERROR(Take(states, parent_, position_, child_));
    return Insert(states, directory_, child_);
  }

  const std::shared_ptr<Session> parent_;
  const std::shared_ptr<Session> child_;
  const std::optional<int64_t> position_;
  SessionDirectory& directory_;
};

class ReadTask final : public AnsweringTask<HistoryPart> {
 public:
  ReadTask(std::shared_ptr<Session> session, std::optional<int64_t> first,
           int64_t tokens, OnAnswer<HistoryPart> on_done)
      : AnsweringTask(std::move(on_done)),
        session_(std::move(session)),
        first_(first),
        tokens_(tokens) {}

 private:
  absl::StatusOr<HistoryPart> Do(StateAccess& states) override {
    if (session_->forgotten) return engine_errors::NotFound(session_->id);
    HistoryPart part{.size = states.PositionOf(*session_)};
    part.first = first_.value_or(std::max<int64_t>(0, part.size - tokens_));
    if (part.first < 0 || part.first > part.size) {
      return engine_errors::BeyondHistory(part.first, part.size, "first_index");
    }
    part.tokens.resize(static_cast<size_t>(std::min(tokens_, part.size - part.first)));
    session_->history.Read(part.first, part.tokens);
    return part;
  }

  const std::shared_ptr<Session> session_;
  const std::optional<int64_t> first_;
  const int64_t tokens_;
};

class CheckpointTask final : public AnsweringTask<SessionCheckpoint> {
 public:
  CheckpointTask(std::shared_ptr<Session> session, SessionCheckpoint checkpoint,
                 bool drawn_id, SessionDirectory& directory,
                 OnAnswer<SessionCheckpoint> on_done)
      : AnsweringTask(std::move(on_done)),
        session_(std::move(session)),
        checkpoint_(std::move(checkpoint)),
        drawn_id_(drawn_id),
        directory_(directory) {}

 private:
  absl::StatusOr<SessionCheckpoint> Do(StateAccess& states) override {
    MNEMON_RETURN_IF_ERROR(Take(states, session_, std::nullopt, checkpoint_.at));
    checkpoint_.at->stored_tokens = checkpoint_.at->history.size();
    states.Rest(checkpoint_.at);
    auto made = directory_.checkpoints().Add(*session_, checkpoint_, drawn_id_);
    if (!made.ok() || made->at != checkpoint_.at) states.DropState(*checkpoint_.at);
    return made;
  }

  const std::shared_ptr<Session> session_;
  const SessionCheckpoint checkpoint_;
  const bool drawn_id_;
  SessionDirectory& directory_;
};

// A call that is detached ends at its last delivered token. REQUIRES: the session is
// held, by no call.
void EndDetached(StateAccess& states, SessionDirectory& directory, Session& session) {
  const auto record = directory.calls().NewestCall(session);
  if (record == nullptr || !record->cuts(session.history.size())) return;
  session.history.Cut(*record->delivered);
  session.in_runner.state.CutAtRest(states.arena(), *record->delivered);
}

class GiveWayTask final : public AnsweringTask<bool> {
 public:
  GiveWayTask(std::shared_ptr<Session> session, std::string request_id,
              uint64_t resume_number, SessionDirectory& directory,
              OnAnswer<bool> on_done)
      : AnsweringTask(std::move(on_done)),
        session_(std::move(session)),
        request_id_(std::move(request_id)),
        resume_number_(resume_number),
        directory_(directory) {}

 private:
  absl::StatusOr<bool> Do(StateAccess& states) override {
    const bool resumes = !request_id_.empty();
    // What holds the session then may be the newer one.
    if (resumes && !directory_.calls().IsNewestResume(*session_, resume_number_))
      return true;
    states.GiveWay(*session_, request_id_);
    const std::shared_ptr<Call> resumer =
        resumes ? directory_.calls().ResumerOf(*session_) : nullptr;
    if (resumer != nullptr && session_->in_runner.call == nullptr)
      states.Supersede(resumer);
    const auto record = directory_.calls().NewestCall(*session_);
    if (record == nullptr || record->params->request_id == request_id_) return true;
    MNEMON_ASSIGN_OR_RETURN(const bool held, states.Hold(*session_));
    if (!held) return true;
    const absl::Status status = CatchOutOfMemory({}, [&] {
      EndDetached(states, directory_, *session_);
      return absl::OkStatus();
    });
    directory_.calls().Release(*session_, /*taken=*/false);
    MNEMON_RETURN_IF_ERROR(status);
    return true;
  }

  const std::shared_ptr<Session> session_;
  const std::string request_id_;
  const uint64_t resume_number_;
  SessionDirectory& directory_;
};

class CopyTask final : public AnsweringTask<bool> {
 public:
  CopyTask(std::shared_ptr<Session> session, std::shared_ptr<Session> copy,
           CopyScope scope, OnAnswer<bool> on_done)
      : AnsweringTask(std::move(on_done)),
        session_(std::move(session)),
        copy_(std::move(copy)),
        scope_(std::move(scope)) {}

 private:
  absl::StatusOr<bool> Do(StateAccess& states) override {
    states.Pin(*copy_);
    if (scope_.at_copy) scope_.at_copy();
    MNEMON_RETURN_IF_ERROR(
        Take(states, session_, std::nullopt, copy_, scope_.undelivered));
    return true;
  }

  const std::shared_ptr<Session> session_;
  const std::shared_ptr<Session> copy_;
  const CopyScope scope_;
};

class AdoptTask final : public AnsweringTask<bool> {
 public:
  AdoptTask(std::shared_ptr<Session> session, uint64_t version,
            std::shared_ptr<Session> from, OnAnswer<bool> on_done)
      : AnsweringTask(std::move(on_done)),
        session_(std::move(session)),
        version_(version),
        from_(std::move(from)) {}

 private:
  absl::StatusOr<bool> Do(StateAccess& states) override {
    states.Unpin(*from_);
    if (session_->forgotten || session_->in_runner.call != nullptr ||
        session_->in_runner.state.has_state() ||
        session_->history.version() != version_) {
      states.DropState(*from_);
      return false;
    }
    session_->in_runner.state.Put(from_->in_runner.state.whole());
    session_->in_runner.state.CutAtRest(states.arena(), session_->history.size());
    states.Rest(session_);
    return session_->in_runner.state.has_state();
  }

  const std::shared_ptr<Session> session_;
  const uint64_t version_;
  const std::shared_ptr<Session> from_;
};

class DropTask final : public AnsweringTask<bool> {
 public:
  DropTask(std::shared_ptr<Session> session, SessionDirectory& directory,
           CallbackThreads& threads, OnAnswer<bool> on_done)
      : AnsweringTask(std::move(on_done), &threads),
        session_(std::move(session)),
        directory_(directory) {}

 private:
  absl::StatusOr<bool> Do(StateAccess& states) override {
    const auto drop = [&](Session& session) {
      const auto place = session.in_runner.place;
      const bool rests = place == ResidentState::Place::kResting ||
                         place == ResidentState::Place::kImage;
      if (rests && session.in_runner.call == nullptr) states.DropState(session);
    };
    // Who answers finds nobody else with it: a session falls asleep that nobody has.
    const std::shared_ptr<Session> session = std::move(session_);
    drop(*session);
    for (const SessionCheckpoint& kept : directory_.checkpoints().Of(*session)) {
      drop(*kept.at);
    }
    return true;
  }

  std::shared_ptr<Session> session_;
  SessionDirectory& directory_;
};

class RoomTask final : public AnsweringTask<bool> {
 public:
  RoomTask(std::shared_ptr<Session> session, int64_t computed, OnAnswer<bool> on_done)
      : AnsweringTask(std::move(on_done)),
        session_(std::move(session)),
        computed_(computed) {}

 private:
  absl::StatusOr<bool> Do(StateAccess& states) override {
    SavedState whole;
    if (!states.MakeRoomFor(computed_)) return false;
    if (!states.arena().saved().MakeWhole(computed_, whole).ok()) return false;
    session_->in_runner.state.Put(whole);
    states.Pin(*session_);
    return true;
  }

  const std::shared_ptr<Session> session_;
  const int64_t computed_;
};

class InsertTask final : public AnsweringTask<std::shared_ptr<Session>> {
 public:
  InsertTask(std::shared_ptr<Session> session, bool pinned, SessionDirectory& directory,
             OnAnswer<std::shared_ptr<Session>> on_done)
      : AnsweringTask(std::move(on_done)),
        session_(std::move(session)),
        pinned_(pinned),
        directory_(directory) {}

 private:
  absl::StatusOr<std::shared_ptr<Session>> Do(StateAccess& states) override {
    if (pinned_) states.Unpin(*session_);
    return Insert(states, directory_, session_);
  }

  const std::shared_ptr<Session> session_;
  const bool pinned_;
  SessionDirectory& directory_;
};

class EndCallTask final : public StateTask {
 public:
  EndCallTask(std::shared_ptr<Session> session, absl::Status status)
      : session_(std::move(session)), status_(std::move(status)) {}

  void Run(StateAccess& states) override { states.EndCall(*session_, status_); }
  // All calls end with the runner.
  void Refuse(const absl::Status&) override {}

 private:
  const std::shared_ptr<Session> session_;
  const absl::Status status_;
};

class UnpinTask final : public StateTask {
 public:
  explicit UnpinTask(std::shared_ptr<Session> session) : session_(std::move(session)) {}

  void Run(StateAccess& states) override {
    states.Unpin(*session_);
    states.DropState(*session_);
  }
  // The arena ends with the runner.
  void Refuse(const absl::Status&) override {}

 private:
  const std::shared_ptr<Session> session_;
};

}  // namespace

std::shared_ptr<StateTask> MakeCopyTask(std::shared_ptr<Session> session,
                                        std::shared_ptr<Session> copy, CopyScope scope,
                                        OnAnswer<bool> on_done) {
  return std::make_shared<CopyTask>(std::move(session), std::move(copy),
                                    std::move(scope), std::move(on_done));
}

std::shared_ptr<StateTask> MakeAdoptTask(std::shared_ptr<Session> session,
                                         uint64_t version,
                                         std::shared_ptr<Session> from,
                                         OnAnswer<bool> on_done) {
  return std::make_shared<AdoptTask>(std::move(session), version, std::move(from),
                                     std::move(on_done));
}

std::shared_ptr<StateTask> MakeDropTask(std::shared_ptr<Session> session,
                                        SessionDirectory& directory,
                                        CallbackThreads& threads,
                                        OnAnswer<bool> on_done) {
  return std::make_shared<DropTask>(std::move(session), directory, threads,
                                    std::move(on_done));
}

std::shared_ptr<StateTask> MakeRoomTask(std::shared_ptr<Session> session,
                                        int64_t computed, OnAnswer<bool> on_done) {
  return std::make_shared<RoomTask>(std::move(session), computed, std::move(on_done));
}

std::shared_ptr<StateTask> MakeInsertTask(std::shared_ptr<Session> session, bool pinned,
                                          SessionDirectory& directory,
                                          OnAnswer<std::shared_ptr<Session>> on_done) {
  return std::make_shared<InsertTask>(std::move(session), pinned, directory,
                                      std::move(on_done));
}

std::shared_ptr<StateTask> MakeReadTask(std::shared_ptr<Session> session,
                                        std::optional<int64_t> first, int64_t tokens,
                                        OnAnswer<HistoryPart> on_done) {
  return std::make_shared<ReadTask>(std::move(session), first, tokens,
                                    std::move(on_done));
}

std::shared_ptr<StateTask> MakeEndCallTask(std::shared_ptr<Session> session,
                                           absl::Status status) {
  return std::make_shared<EndCallTask>(std::move(session), std::move(status));
}

std::shared_ptr<StateTask> MakeGiveWayTask(std::shared_ptr<Session> session,
                                           std::string request_id,
                                           uint64_t resume_number,
                                           SessionDirectory& directory,
                                           OnAnswer<bool> on_done) {
  return std::make_shared<GiveWayTask>(std::move(session), std::move(request_id),
                                       resume_number, directory, std::move(on_done));
}

std::shared_ptr<StateTask> MakeUnpinTask(std::shared_ptr<Session> session) {
  return std::make_shared<UnpinTask>(std::move(session));
}

std::shared_ptr<StateTask> MakeForkTask(std::shared_ptr<Session> parent,
                                        std::shared_ptr<Session> child,
                                        std::optional<int64_t> position,
                                        SessionDirectory& directory,
                                        OnAnswer<std::shared_ptr<Session>> on_done) {
  return std::make_shared<ForkTask>(std::move(parent), std::move(child), position,
                                    directory, std::move(on_done));
}

std::shared_ptr<StateTask> MakeCheckpointTask(std::shared_ptr<Session> session,
                                              SessionCheckpoint checkpoint,
                                              bool drawn_id,
                                              SessionDirectory& directory,
                                              OnAnswer<SessionCheckpoint> on_done) {
  return std::make_shared<CheckpointTask>(std::move(session), std::move(checkpoint),
                                          drawn_id, directory, std::move(on_done));
}

}  // namespace mnemon
