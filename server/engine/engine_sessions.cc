// SPDX-License-Identifier: MIT
// The calls on sessions as resources: create, get, list, delete.
#include <algorithm>
#include <future>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/engine/engine.h"
#include "server/engine/engine_errors.h"
#include "server/engine/random.h"
#include "server/engine/request_check.h"
#include "server/engine/rewind_tasks.h"
#include "server/engine/session_bytes.h"
#include "server/engine/session_pager.h"
#include "server/engine/session_query.h"
#include "server/engine/session_settings.h"

namespace mnemon {
namespace {

// Sessions that are taken from the directory at once to be listed.
constexpr size_t kListedAtOnce = 64;

// Looks at the etag of a session that is to be deleted, while its record changes and
// its etag does not.
constexpr int kDeleteTries = 8;

// That a hidden session outlasts the longest wait of its conversation: one whose end
// could not delete it goes by itself.
constexpr std::chrono::minutes kHiddenTime{1};

// What a method answers later, awaited. `begin` gets the function to answer with.
template <class T, class Begin>
T Await(const Begin& begin) try {
  std::promise<T> answered;
  std::future<T> answer = answered.get_future();
  const absl::Status status =
      begin([&answered](T made) { answered.set_value(std::move(made)); });
  if (!status.ok()) return status;
  return answer.get();
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

}  // namespace

absl::StatusOr<SessionFacts> Engine::CreateSession(
    const CreateSessionRequest& request) {
  return Await<absl::StatusOr<SessionFacts>>(
      [&](auto on_done) { return CreateSession(request, std::move(on_done)); });
}

absl::StatusOr<SessionFacts> Engine::UpdateSession(
    const UpdateSessionRequest& request) {
  return Await<absl::StatusOr<SessionFacts>>(
      [&](auto on_done) { return UpdateSession(request, std::move(on_done)); });
}

absl::Status Engine::DeleteSession(const std::string& id, const std::string& etag) {
  return Await<absl::Status>(
      [&](auto on_done) { return DeleteSession(id, etag, std::move(on_done)); });
}

absl::Status Engine::CreateSession(const CreateSessionRequest& request,
                                   OnAnswer<SessionFacts> on_done) {
  return Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    if (!request.id.empty()) {
      MNEMON_RETURN_IF_ERROR(CheckSessionId(request.id, "session_id"));
    }
    MNEMON_RETURN_IF_ERROR(CheckRequestId(request.request_id));
    MNEMON_ASSIGN_OR_RETURN(const size_t model, FindDecoder(request.model));
    MNEMON_RETURN_IF_ERROR(CheckSettings(
        request.settings, runners_[model].decoder->vocab(), *context_->options.clock));
    MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                            MakeSession(request.id, model));
    // A hidden one ends with its conversation.
    MNEMON_RETURN_IF_ERROR(
        MakeDurable(session, request.settings.durability,
                    request.hidden ? Durability::kNone : default_durability(),
                    /*has_history=*/false));
    Apply(request.settings, context_->options, *session);
    if (request.hidden) {
      session->hidden = true;
      session->ttl = context_->options.idle_timeout + kHiddenTime;
      session->expires_at.reset();
    }
    session->request_id = request.request_id;
    if (!request.request_id.empty()) {
      session->request_text = StrCat("create ", model, " ", TextOf(request.settings));
    }
    const Session* const fresh = session.get();
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> before,
                            MadeBefore(request.request_id));
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> made,
                            context_->directory.Insert(std::move(session)));
    if (made.get() == fresh) Report(SessionEvent::kCreate);
    changed_.notify_all();
    if (made->journal) made->journal->TouchRecord();
    AnswerWhenMade(made, made.get() == fresh, std::move(on_done));
    return absl::OkStatus();
  });
}

absl::Status Engine::MakeDurable(const std::shared_ptr<Session>& session,
                                 const std::optional<Durability>& wanted,
                                 Durability otherwise, bool has_history) const {
  const Durability durability = wanted.value_or(otherwise);
  if (!persistence_) {
    return durability == Durability::kNone ? absl::OkStatus()
                                           : engine_errors::NoStore();
  }
  MNEMON_RETURN_IF_ERROR(persistence_->CheckId(session->id));
  if (durability != Durability::kNone) MNEMON_RETURN_IF_ERROR(persistence_->status());
  persistence_->Adopt(session, durability, has_history);
  return absl::OkStatus();
}

void Engine::AnswerWhenSynced(const std::shared_ptr<Session>& session,
                              OnAnswer<SessionFacts> on_done) const {
  const auto answer = [this, session,
                       on_done = std::move(on_done)](const absl::Status& status) {
    if (!status.ok()) return on_done(status);
    on_done(CatchOutOfMemory(
        {}, [&]() -> absl::StatusOr<SessionFacts> { return FactsOf(*session); }));
  };
  if (!session->journal) return answer(absl::OkStatus());
  session->journal->Flush(WaiterKind::kFlush, answer);
}

void Engine::AnswerWhenMade(const std::shared_ptr<Session>& session, bool fresh,
                            OnAnswer<SessionFacts> on_done) {
  if (!fresh) return AnswerWhenSynced(session, std::move(on_done));
  AnswerWhenSynced(session, [this, session, on_done = std::move(on_done)](
                                absl::StatusOr<SessionFacts> facts) {
    if (!facts.ok() && context_->directory.Retire(session)) {
      runners_[session->model].decoder->Forget(session);
    }
    on_done(std::move(facts));
  });
}

void Engine::Discard(std::shared_ptr<Session> session, OnSynced on_done) {
  if (persistence_) {
    persistence_->Delete(*session, std::move(on_done));
  } else {
    if (on_done) on_done(absl::OkStatus());
  }
  context_->directory.Left(*session);
  // Not kept: whoever has it last frees its history.
  ModelRunner& runner = *runners_[session->model].decoder;
  runner.Forget(std::move(session));
}

Durability Engine::default_durability() const {
  return persistence_ ? context_->options.durability : Durability::kNone;
}

absl::StatusOr<std::shared_ptr<Session>> Engine::FindNamed(const std::string& id) {
  // One that cannot be removed just now has expired all the same.
  static_cast<void>(Expire(id));
  auto session = FindAwake(id);
  if (!session.ok() && persistence_) MNEMON_RETURN_IF_ERROR(persistence_->CheckId(id));
  return session;
}

absl::StatusOr<std::shared_ptr<Session>> Engine::FindAwake(const std::string& id) {
  using Short = SessionPersistence::Short;
  const ByteBudget& sessions = context_->memory->small;
  const bool full = sessions.used() > sessions.limit() - Session::kBytes;
  auto found = context_->directory.Find(id);
  MakeRoom(Session::kBytes, full ? Short::kSessions : Short::kResting, [&] {
    if (!absl::IsResourceExhausted(found.status())) return true;
    found = context_->directory.Find(id);
    return !absl::IsResourceExhausted(found.status());
  });
  // What comes back makes others leave.
  if (persistence_) persistence_->KeepMemoryFree();
  return found;
}

absl::StatusOr<std::string> Engine::ModelOfSession(const std::string& id) const {
  const std::optional<size_t> model = context_->directory.ModelOf(id);
  if (!model) return engine_errors::NotFound(id);
  return runners_[*model].decoder->model().facts.name;
}

absl::StatusOr<std::shared_ptr<Session>> Engine::FindSession(const std::string& id) {
  auto session = FindNamed(id);
  if (!persistence_ || !session.ok()) return session;
  return persistence_->Use(*session);
}

absl::StatusOr<std::shared_ptr<Session>> Engine::MadeBefore(
    const std::string& request_id) {
  const std::string id =
      request_id.empty() ? "" : context_->directory.MadeBy(request_id);
  if (id.empty()) return nullptr;
  MNEMON_RETURN_IF_ERROR(Expire(id));
  auto made = FindAwake(id);
  if (absl::IsNotFound(made.status())) return nullptr;
  return made;
}

absl::StatusOr<std::shared_ptr<Session>> Engine::MakeSession(const std::string& id,
                                                             size_t model) {
  {
    std::lock_guard lock(mutex_);
    if (draining_) return engine_errors::Draining();
  }
  RemoveExpired();
  MNEMON_RETURN_IF_ERROR(Expire(id));
  auto session =
      std::make_shared<Session>(id.empty() ? RandomId() : id, model,
                                &context_->options.on_history_change, context_->memory);
  session->drawn_id = id.empty();
  MNEMON_RETURN_IF_ERROR(ChargeNew(*session, Session::kBytes));
  return session;
}

absl::StatusOr<SessionFacts> Engine::GetSession(const std::string& id) try {
  MNEMON_RETURN_IF_ERROR(CheckSessionId(id, "name"));
  RemoveExpired();
  MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, FindNamed(id));
  return FactsOf(*session);
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

absl::StatusOr<SessionPage> Engine::ListSessions(
    const ListSessionsRequest& request) try {
  MNEMON_ASSIGN_OR_RETURN(const SessionQuery query, SessionQuery::Parse(request));
  RemoveExpired();
  SessionPager pager(query);
  std::string from = query.ids().begin;
  if (query.by_name() && !query.after_id().empty()) {
    from = std::max(from, query.after_id() + '\0');
  }
  for (bool more = true; more && !pager.complete();) {
    std::string next;
    MNEMON_ASSIGN_OR_RETURN(const auto found,
                            context_->directory.From(from, kListedAtOnce, next));
    more = !next.empty();
    for (const auto& session : found) {
      if (query.ids().end && session->id >= *query.ids().end) {
        more = false;
        break;
      }
      if (!session->hidden) pager.Add(FactsOf(*session));
    }
    from = std::move(next);
  }
  return pager.Take();
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

absl::Status Engine::DeleteSession(const std::string& id, const std::string& etag,
                                   OnSynced on_done) {
  return Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(id, "name"));
    RemoveExpired();
    SessionDirectory& directory = context_->directory;
    absl::StatusOr<std::shared_ptr<Session>> found = FindAwake(id);
    if (!found.ok()) {
      if (absl::IsDataLoss(found.status()) &&
          !persistence_->GiveUp(id, found.status())) {
        return found.status();
      }
      const absl::Status usable =
          persistence_ ? persistence_->CheckId(id) : absl::OkStatus();
      if (usable.ok()) return found.status();
      if (!absl::IsDataLoss(usable)) return usable;
      persistence_->DeleteDamaged(id, on_done);
      return absl::OkStatus();
    }
    const std::shared_ptr<Session> session = *std::move(found);
    if (!session->journal || !session->journal->in_store()) {
      MNEMON_ASSIGN_OR_RETURN(auto removed, directory.Remove(id, etag));
      Discard(std::move(removed), on_done);
      return absl::OkStatus();
    }
    SessionJournal& journal = *session->journal;
    for (int i = 0; i < kDeleteTries; ++i) {
      std::optional<uint64_t> changes;
      if (!etag.empty()) changes = journal.changes();
      if (!etag.empty() && etag != directory.EtagOf(*session)) break;
      MNEMON_RETURN_IF_ERROR(journal.status());
      // What changes until the store has the deletion is acknowledged to nobody. As
      // long as it is not answered the session does not fall asleep.
      if (journal.TryDelete(changes, [session, on_done](const absl::Status& status) {
            on_done(status);
          })) {
        return absl::OkStatus();
      }
    }
    return engine_errors::EtagMismatch(id);
  });
}

absl::Status Engine::UpdateSession(const UpdateSessionRequest& request,
                                   OnAnswer<SessionFacts> on_done) {
  return Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.session, "name"));
    RemoveExpired();
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                            FindNamed(request.session));
    std::shared_ptr<Session> used;
    const SessionSettings& wanted = request.settings;
    MNEMON_RETURN_IF_ERROR(CheckSettings(
        wanted, runners_[session->model].decoder->vocab(), *context_->options.clock));
    SessionDirectory::Settings settings{
        .expiration = {}, .sampling = {}, .paused = wanted.paused};
    if (wanted.ttl || wanted.expire_time || request.clear_expiration) {
      settings.expiration = ExpirationOf(wanted, context_->options);
    }
    if (wanted.sampling || request.clear_sampling) settings.sampling = wanted.sampling;
    if (wanted.sampling) {
      // What sessions come to remember has a share as they have.
      const int64_t bytes = BytesOf(*wanted.sampling);
      const ByteBudget& sessions = context_->memory->small;
      if (!MakeRoom(bytes, SessionPersistence::Short::kSessions,
                    [&] { return sessions.used() <= sessions.limit() - bytes; })) {
        return engine_errors::MemoryLimit();
      }
    }
    std::optional<Durability> durability = wanted.durability;
    if (request.clear_durability) durability = default_durability();
    if (session->journal) {
      MNEMON_RETURN_IF_ERROR(session->journal->status());
      // What leaves the store must be in memory.
      if (durability == Durability::kNone) {
        MNEMON_ASSIGN_OR_RETURN(used, persistence_->UseWithCheckpoints(session));
      }
    } else if (durability.value_or(Durability::kNone) != Durability::kNone) {
      return engine_errors::NoStore();
    }
    MNEMON_ASSIGN_OR_RETURN(
        const uint64_t update,
        context_->directory.Update(*session, request.etag, settings));
    changed_.notify_all();
    if (session->journal) {
      if (durability && session->journal->SetDurability(*durability)) {
        persistence_->StoreAnew(session);
      }
      session->journal->TouchRecord();
    }
    // In memory until it is stored.
    const auto settle = [this, session, used, update,
                         on_done](absl::StatusOr<SessionFacts> facts) {
      const auto before =
          context_->directory.Settle(*session, update, /*stored=*/facts.ok());
      if (before && session->journal && session->journal->Restore(*before)) {
        persistence_->StoreAnew(session);
      }
      on_done(std::move(facts));
    };
    AnswerWhenSynced(session, settle);
    return absl::OkStatus();
  });
}

absl::Status Engine::ForkSession(const ForkSessionRequest& request,
                                 OnAnswer<SessionFacts> on_done) {
  return Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.session, "name"));
    if (!request.id.empty()) {
      MNEMON_RETURN_IF_ERROR(CheckSessionId(request.id, "session_id"));
    }
    MNEMON_RETURN_IF_ERROR(CheckRequestId(request.request_id));
    RemoveExpired();
    MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> parent,
                            FindSession(request.session));
    MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> child,
                            MakeSession(request.id, parent->model));
    MNEMON_RETURN_IF_ERROR(CheckSettings(request.settings,
                                         runners_[parent->model].decoder->vocab(),
                                         *context_->options.clock));
    const SessionDirectory::Facts kept = context_->directory.FactsOf(*parent);
    MNEMON_RETURN_IF_ERROR(
        MakeDurable(child, request.settings.durability,
                    parent->journal ? parent->journal->durability() : Durability::kNone,
                    /*has_history=*/true));
    Apply(WithDefaults(request.settings, {.ttl = kept.ttl, .sampling = kept.sampling}),
          context_->options, *child);
    child->parent = parent->id;
    child->request_id = request.request_id;
    if (!request.request_id.empty()) {
      // As the store has it, so that a repetition after a restart is one too.
      const auto created = std::chrono::duration_cast<std::chrono::milliseconds>(
          parent->create_time.time_since_epoch());
      child->request_text =
          StrCat("fork ", parent->id, " ", created.count(), " ",
                 request.position.value_or(-1), " ", TextOf(request.settings));
    }
    const std::shared_ptr<ModelRunner> runner = runners_[parent->model].decoder;
    const Session* const fresh = child.get();
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> before,
                            MadeBefore(request.request_id));
    runner->Do(MakeForkTask(
        std::move(parent), std::move(child), request.position, context_->directory,
        [this, fresh, before, on_done = std::move(on_done)](
            absl::StatusOr<std::shared_ptr<Session>> made) mutable {
          if (!made.ok()) return on_done(made.status());
          if (made->get() == fresh) Report(SessionEvent::kFork);
          changed_.notify_all();
          if (persistence_) persistence_->RequestSnapshot(*made);
          AnswerWhenMade(*made, made->get() == fresh, std::move(on_done));
        }));
    return absl::OkStatus();
  });
}

absl::Status Engine::RewindSession(const RewindSessionRequest& request,
                                   OnAnswer<SessionFacts> on_done) {
  return Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.session, "name"));
    if (const auto* const id = std::get_if<std::string>(&request.target)) {
      MNEMON_RETURN_IF_ERROR(CheckSessionId(*id, "checkpoint_id"));
    }
    RemoveExpired();
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                            FindSession(request.session));
    if (session->journal) MNEMON_RETURN_IF_ERROR(session->journal->status());
    const auto settled = [this, session, on_done](const absl::Status& status) {
      if (!status.ok()) return on_done(status);
      Report(SessionEvent::kRewind);
      on_done(CatchOutOfMemory(
          {}, [&]() -> absl::StatusOr<SessionFacts> { return FactsOf(*session); }));
    };
    const auto rewound = [this, session, on_done, settled](
                             absl::StatusOr<std::optional<SessionBefore>> before) {
      if (!before.ok()) return on_done(before.status());
      if (!*before) return on_done(Busy(*session));
      if (!(*before)->copy) return settled(absl::OkStatus());
      const absl::Status begun = CatchOutOfMemory({}, [&] {
        persistence_->Settle(session, WaiterKind::kFlush, **before, settled);
        return absl::OkStatus();
      });
      if (begun.ok()) return;
      // It is as the request asked, and synced with the next turn.
      static_cast<void>(CatchOutOfMemory({}, [&] {
        runners_[session->model].decoder->Do(MakeUnpinTask((*before)->copy));
        return absl::OkStatus();
      }));
      context_->directory.Release(*session, /*taken=*/false);
      on_done(begun);
    };
    const bool stored = session->journal && session->journal->in_store();
    const auto copy = stored ? MakeCopy(session->model) : nullptr;
    const auto rewind = [this, session, copy, request, rewound] {
      runners_[session->model].decoder->Do(
          MakeRewindTask(session, copy, request, context_->directory, rewound));
    };
    const auto* const id = std::get_if<std::string>(&request.target);
    if (!persistence_ || id == nullptr) {
      rewind();
      return absl::OkStatus();
    }
    MNEMON_ASSIGN_OR_RETURN(const SessionCheckpoint checkpoint,
                            context_->directory.FindCheckpoint(*session, *id));
    MNEMON_RETURN_IF_ERROR(persistence_->LoadCheckpoint(*session, checkpoint));
    persistence_->Restore(*session, checkpoint, rewind);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::shared_ptr<Session>> Engine::SessionFor(const std::string& id,
                                                            const std::string& model) {
  // Refused at once rather than after the work of encoding a prompt.
  {
    std::lock_guard lock(mutex_);
    if (draining_) return engine_errors::Draining();
  }
  if (id.empty()) {
    MNEMON_ASSIGN_OR_RETURN(const size_t index, FindDecoder(model));
    return std::make_shared<Session>("", index, &context_->options.on_history_change,
                                     context_->memory, &EngineMemory::prompts);
  }
  MNEMON_RETURN_IF_ERROR(CheckSessionId(id, "session"));
  RemoveExpired();
  MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, FindSession(id));
  if (model.empty()) return session;
  MNEMON_ASSIGN_OR_RETURN(const size_t index, FindModel(model));
  if (index != session->model) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     StrCat("session ", Quoted(id), " belongs to model ",
                            Quoted(runners_[session->model].model().facts.name)),
                     {.reason = "MODEL_MISMATCH", .field = "model"});
  }
  return session;
}

SessionFacts Engine::FactsOf(const Session& session) const {
  const SessionDirectory::Facts kept = context_->directory.FactsOf(session);
  SessionFacts facts;
  const ModelFacts& model = runners_[session.model].model().facts;
  facts.id = session.id;
  facts.model = model.name;
  facts.model_id = model.model_id;
  facts.numerics_id = model.numerics_id;
  facts.parent = session.parent;
  facts.rebuilt = session.rebuilt;
  facts.etag = context_->directory.EtagOf(session);
  for (const SessionCheckpoint& checkpoint :
       context_->directory.CheckpointsOf(session)) {
    facts.checkpoints.push_back(FactsOf(checkpoint));
  }
  facts.paused = kept.paused;
  facts.sampling = kept.sampling;
  if (kept.detached) facts.state = SessionState::kDetached;
  if (kept.paused) facts.state = SessionState::kPaused;
  if (kept.held) {
    facts.state = session.running.load(std::memory_order_relaxed)
                      ? SessionState::kRunning
                      : SessionState::kQueued;
  }
  facts.position = kept.tokens;
  if (session.journal) facts.durability = session.journal->durability();
  facts.state_size_bytes = session.state_bytes.load(std::memory_order_relaxed) +
                           session.image_bytes.load(std::memory_order_relaxed);
  facts.tier = TierOf(session, facts.state);
  facts.create_time = session.create_time;
  facts.last_use_time = kept.last_use_time;
  if (kept.expiry) {
    // From what is left, so that a jump of the wall clock moves nothing but its
    // reading.
    const Clock& clock = *context_->options.clock;
    facts.expire_time = clock.WallNow() + (*kept.expiry - clock.Now());
  }
  return facts;
}

SessionTier Engine::TierOf(const Session& session, SessionState state) const {
  if (state == SessionState::kRunning) return SessionTier::kDevice;
  // A state at rest stays in the memory that steps compute in.
  if (session.state_bytes.load(std::memory_order_relaxed) > 0) {
    return runners_[session.model].decoder->state_on_host() ? SessionTier::kHost
                                                            : SessionTier::kDevice;
  }
  if (session.image_bytes.load(std::memory_order_relaxed) > 0) {
    return SessionTier::kHost;
  }
  const bool stored = !session.resident.load(std::memory_order_acquire) ||
                      (persistence_ && persistence_->CanRestore(session));
  return stored ? SessionTier::kDisk : SessionTier::kHost;
}

}  // namespace mnemon
