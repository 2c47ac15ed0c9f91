// SPDX-License-Identifier: MIT
#include "server/tasks/rewind_tasks.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/requests/engine_errors.h"
#include "server/tasks/answering_task.h"

namespace mnemon {
namespace {

class RewindTask final : public AnsweringTask<std::optional<SessionBefore>> {
 public:
  RewindTask(std::shared_ptr<Session> session, std::shared_ptr<Session> copy,
             const RewindSessionRequest& request, SessionDirectory& directory,
             OnAnswer<std::optional<SessionBefore>> on_done)
      : AnsweringTask(std::move(on_done)),
        session_(std::move(session)),
        copy_(std::move(copy)),
        request_(request),
        directory_(directory) {}

 private:
  absl::StatusOr<std::optional<SessionBefore>> Do(StateAccess& states) override {
    states.GiveWay(*session_, "");
    MNEMON_ASSIGN_OR_RETURN(const bool held, states.Hold(*session_));
    if (!held) return std::nullopt;
    const absl::Status status = CatchOutOfMemory({}, [&] { return Rewind(states); });
    if (status.ok()) {
      if (copy_ == nullptr) directory_.calls().Release(*session_, /*taken=*/false);
      return std::move(before_);
    }
    if (before_) {
      directory_.calls().SetNewestCall(*session_, before_->newest_call);
      if (before_->copy) {
        states.Unpin(*copy_);
        states.DropState(*copy_);
      }
    }
    directory_.calls().Release(*session_, /*taken=*/false);
    return status;
  }

  absl::Status Rewind(StateAccess& states) {
    if (!request_.etag.empty() &&
        request_.etag != directory_.updates().EtagOf(*session_)) {
      return engine_errors::EtagMismatch(session_->id);
    }
    const TokenHistory& history = session_->history;
    const auto newest = directory_.calls().NewestCall(*session_);
    const int64_t size =
        newest && newest->cuts(history.size()) ? *newest->delivered : history.size();
    std::optional<SessionCheckpoint> checkpoint;
    if (const auto* const id = std::get_if<std::string>(&request_.target)) {
      MNEMON_ASSIGN_OR_RETURN(checkpoint,
                              directory_.checkpoints().Find(*session_, *id));
    } else if (const int64_t tokens = std::get<int64_t>(request_.target);
               tokens < 0 || tokens > size) {
      return engine_errors::BeyondHistory(tokens, size);
    }
    MNEMON_RETURN_IF_ERROR(Keep(states));
    directory_.calls().SetNewestCall(*session_, nullptr);
    if (checkpoint) {
      MNEMON_RETURN_IF_ERROR(Become(states, *checkpoint->at, size));
    } else {
      Cut(states, std::get<int64_t>(request_.target));
    }
    before_->scored_from = directory_.calls().ForgetScored(*session_);
    return absl::OkStatus();
  }

  absl::Status Keep(StateAccess& states) {
    const TokenHistory& history = session_->history;
    if (copy_ != nullptr &&
        !copy_->history.ShareOf(session_->history, history.size())) {
      return states.MemoryLimit(TokenHistory::kPieceBytes);
    }
    before_ = {.tokens = history.size(),
               .copy = copy_,
               .version = history.version(),
               .newest_call = directory_.calls().NewestCall(*session_),
               .scored_from = {}};
    if (copy_ == nullptr) return absl::OkStatus();
    states.Pin(*copy_);
    SavedState whole;
    // Without memory for it it would be computed again.
    if (session_->in_runner.state.Share(states.arena(), history.size(), whole).ok() &&
        !whole.empty()) {
      copy_->in_runner.state.Put(whole);
    }
    return absl::OkStatus();
  }

  // `size`: what of the history counts.
  absl::Status Become(StateAccess& states, Session& kept, int64_t size) {
    TokenHistory& history = session_->history;
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
  void Cut(StateAccess& states, int64_t tokens) {
    // First: it takes memory.
    const auto checkpoints = directory_.checkpoints().Of(*session_);
    session_->history.Cut(tokens);
    session_->in_runner.state.CutAtRest(states.arena(), tokens);
    const Session* best = nullptr;
    int64_t most = session_->in_runner.state.computed(states.arena());
    for (const SessionCheckpoint& checkpoint : checkpoints) {
      const Session& kept = *checkpoint.at;
      const int64_t computed = kept.in_runner.state.computed(states.arena());
      if (computed <= most || computed >= tokens ||
          session_->history.CommonPrefix(kept.history) < computed) {
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

  void Replace(StateAccess& states, SavedState& whole) {
    states.DropState(*session_);
    if (whole.empty()) return;
    session_->in_runner.state.Put(whole);
    states.Rest(session_);
  }

  const std::shared_ptr<Session> session_;
  const std::shared_ptr<Session> copy_;
  const RewindSessionRequest request_;
  SessionDirectory& directory_;
  std::optional<SessionBefore> before_;
};

class TakeBackTask final : public AnsweringTask<bool> {
 public:
  TakeBackTask(std::shared_ptr<Session> session, SessionBefore before,
               SessionDirectory& directory, OnAnswer<bool> on_done)
      : AnsweringTask(std::move(on_done)),
        session_(std::move(session)),
        before_(std::move(before)),
        directory_(directory) {}

 private:
  absl::StatusOr<bool> Do(StateAccess& states) override {
    if (!session_->forgotten) TakeBack(states);
    if (before_.copy) {
      states.Unpin(*before_.copy);
      states.DropState(*before_.copy);
    }
    return true;
  }

  void TakeBack(StateAccess& states) {
    TokenHistory& history = session_->history;
    if (Session* const copy = before_.copy.get()) {
      history.Cut(history.CommonPrefix(copy->history));
      history.Become(copy->history);
      states.DropState(*session_);
      if (copy->in_runner.state.has_state())
        session_->in_runner.state.Put(copy->in_runner.state.whole());
    } else {
      history.Cut(before_.tokens);
      session_->in_runner.state.CutAtRest(states.arena(), before_.tokens);
    }
    history.SetVersion(before_.version);
    directory_.calls().TakeBack(*session_, before_);
    states.Rest(session_);
  }

  const std::shared_ptr<Session> session_;
  const SessionBefore before_;
  SessionDirectory& directory_;
};

}  // namespace

std::shared_ptr<StateTask> MakeRewindTask(
    std::shared_ptr<Session> session, std::shared_ptr<Session> copy,
    const RewindSessionRequest& request, SessionDirectory& directory,
    OnAnswer<std::optional<SessionBefore>> on_done) {
  return std::make_shared<RewindTask>(std::move(session), std::move(copy), request,
                                      directory, std::move(on_done));
}

std::shared_ptr<StateTask> MakeTakeBackTask(std::shared_ptr<Session> session,
                                            SessionBefore before,
                                            SessionDirectory& directory,
                                            OnAnswer<bool> on_done) {
  return std::make_shared<TakeBackTask>(std::move(session), std::move(before),
                                        directory, std::move(on_done));
}

}  // namespace mnemon
