// SPDX-License-Identifier: MIT
#include "server/engine/session_methods.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/engine/session_facts.h"
#include "server/engine/text_conversion.h"
#include "server/requests/engine_errors.h"
#include "server/requests/request_check.h"
#include "server/sessions/listing/session_pager.h"
#include "server/sessions/listing/session_query.h"
#include "server/sessions/session_bytes.h"
#include "server/sessions/session_journal.h"
#include "server/sessions/session_settings.h"
#include "server/tasks/rewind_tasks.h"
#include "server/tasks/session_tasks.h"

namespace mnemon {
namespace {

// Sessions that are taken from the directory at once to be listed.
constexpr size_t kListedAtOnce = 64;

// Looks at the etag of a session that is to be deleted, while its record changes and
// its etag does not.
constexpr int kDeleteTries = 8;

// A hidden session outlasts the longest wait of its conversation by so much. It expires
// by itself where the end of the conversation could not delete it.
constexpr std::chrono::minutes kHiddenTime{1};

// Tokens of one answer of ReadHistory.
constexpr int32_t kDefaultPart = 1000;
constexpr int32_t kMostPart = 4096;

}  // namespace

absl::Status SessionMethods::Create(const CreateSessionRequest& request,
                                    OnAnswer<SessionFacts> on_done) {
  return parts_.Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    if (!request.id.empty()) {
      MNEMON_RETURN_IF_ERROR(CheckSessionId(request.id, "session_id"));
    }
    MNEMON_RETURN_IF_ERROR(CheckRequestId(request.request_id));
    MNEMON_ASSIGN_OR_RETURN(const size_t model,
                            parts_.models.FindDecoder(request.model));
    MNEMON_RETURN_IF_ERROR(CheckSettings(request.settings,
                                         parts_.models.decoder(model)->vocab(),
                                         *parts_.context->options.clock));
    MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                            named_.Make(request.id, model));
    // A hidden session ends with its conversation.
    MNEMON_RETURN_IF_ERROR(named_.MakeDurable(
        session, request.settings.durability,
        request.hidden ? Durability::kNone : named_.default_durability(),
        /*has_history=*/false));
    Apply(request.settings, parts_.context->options, *session);
    if (request.hidden) {
      session->hidden = true;
      session->entry.ttl = parts_.context->options.idle_timeout + kHiddenTime;
      session->entry.expires_at.reset();
    }
    session->request_id = request.request_id;
    if (!request.request_id.empty()) {
      session->request_text = StrCat("create ", model, " ", TextOf(request.settings));
    }
    const Session* const fresh = session.get();
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> before,
                            named_.FindMadeBy(request.request_id));
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> made,
                            parts_.context->directory.Insert(std::move(session)));
    if (made.get() == fresh) parts_.Report(SessionEvent::kCreate);
    expiry_.Wake();
    if (made->journal) made->journal->TouchRecord();
    named_.AnswerWhenMade(made, made.get() == fresh, std::move(on_done));
    return absl::OkStatus();
  });
}

absl::StatusOr<SessionFacts> SessionMethods::Get(const std::string& id) try {
  MNEMON_RETURN_IF_ERROR(CheckSessionId(id, "name"));
  MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, named_.Find(id));
  return FactsOf(parts_, *session);
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

absl::StatusOr<std::string> SessionMethods::ModelOf(const std::string& id) const {
  const std::optional<size_t> model = parts_.context->directory.ModelOf(id);
  if (!model) return engine_errors::NotFound(id);
  return parts_.models.decoder(*model)->model().facts.name;
}

absl::Status SessionMethods::ReadHistory(const ReadHistoryRequest& request,
                                         OnAnswer<HistoryPart> on_done) {
  return parts_.Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.session, "name"));
    if (request.tokens < 0) {
      return InvalidField("token_count", "token_count must not be negative");
    }
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                            named_.FindWithHistory(request.session));
    const int32_t tokens =
        std::min(request.tokens == 0 ? kDefaultPart : request.tokens, kMostPart);
    ModelRunner& runner = *parts_.models.decoder(session->model);
    runner.Do(MakeReadTask(
        session, request.first, tokens,
        [tokenizer = runner.model().tokenizer,
         on_done = std::move(on_done)](absl::StatusOr<HistoryPart> part) {
          on_done(CatchOutOfMemory({}, [&]() -> absl::StatusOr<HistoryPart> {
            if (part.ok() && tokenizer != nullptr) AddText(*tokenizer, *part);
            return std::move(part);
          }));
        }));
    return absl::OkStatus();
  });
}

absl::StatusOr<SessionPage> SessionMethods::List(
    const ListSessionsRequest& request) try {
  MNEMON_ASSIGN_OR_RETURN(const SessionQuery query, SessionQuery::Parse(request));
  expiry_.RemoveExpired();
  SessionPager pager(query);
  std::string from = query.ids().begin;
  if (query.by_name() && !query.after_id().empty()) {
    from = std::max(from, query.after_id() + '\0');
  }
  for (bool more = true; more && !pager.complete();) {
    std::string next;
    MNEMON_ASSIGN_OR_RETURN(const auto found,
                            parts_.context->directory.From(from, kListedAtOnce, next));
    more = !next.empty();
    for (const auto& session : found) {
      if (query.ids().end && session->id >= *query.ids().end) {
        more = false;
        break;
      }
      if (!session->hidden) pager.Add(FactsOf(parts_, *session));
    }
    from = std::move(next);
  }
  return pager.Take();
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

absl::Status SessionMethods::Update(const UpdateSessionRequest& request,
                                    OnAnswer<SessionFacts> on_done) {
  return parts_.Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.session, "name"));
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                            named_.Find(request.session));
    std::shared_ptr<Session> used;
    const SessionSettings& wanted = request.settings;
    MNEMON_RETURN_IF_ERROR(CheckSettings(wanted,
                                         parts_.models.decoder(session->model)->vocab(),
                                         *parts_.context->options.clock));
    SessionUpdates::Settings settings{
        .expiration = {}, .sampling = {}, .paused = wanted.paused};
    if (wanted.ttl || wanted.expire_time || request.clear_expiration) {
      settings.expiration = ExpirationOf(wanted, parts_.context->options);
    }
    if (wanted.sampling || request.clear_sampling) settings.sampling = wanted.sampling;
    if (wanted.sampling) {
      // Sampling that is kept counts with the sessions.
      const int64_t bytes = BytesOf(*wanted.sampling);
      const ByteBudget& sessions = parts_.context->memory->small;
      if (!parts_.MakeRoom(bytes, SessionPersistence::Short::kSessions, [&] {
            return sessions.used() <= sessions.limit() - bytes;
          })) {
        return engine_errors::MemoryLimit();
      }
    }
    std::optional<Durability> durability = wanted.durability;
    if (request.clear_durability) durability = named_.default_durability();
    if (session->journal) {
      MNEMON_RETURN_IF_ERROR(session->journal->status());
      // What leaves the store must be in memory.
      if (durability == Durability::kNone) {
        MNEMON_ASSIGN_OR_RETURN(used, parts_.persistence->UseWithCheckpoints(session));
      }
    } else if (durability.value_or(Durability::kNone) != Durability::kNone) {
      return engine_errors::NoStore();
    }
    MNEMON_ASSIGN_OR_RETURN(
        const uint64_t update,
        parts_.context->directory.updates().Update(*session, request.etag, settings));
    expiry_.Wake();
    if (session->journal) {
      if (durability && session->journal->SetDurability(*durability)) {
        parts_.persistence->StoreAnew(session);
      }
      session->journal->TouchRecord();
    }
    // In memory until it is stored.
    const auto settle = [this, session, used, update,
                         on_done](absl::StatusOr<SessionFacts> facts) {
      const auto before = parts_.context->directory.updates().Settle(
          *session, update, /*stored=*/facts.ok());
      if (before && session->journal && session->journal->Restore(*before)) {
        parts_.persistence->StoreAnew(session);
      }
      on_done(std::move(facts));
    };
    AnswerWhenSynced(parts_, session, settle);
    return absl::OkStatus();
  });
}

absl::Status SessionMethods::Delete(const std::string& id, const std::string& etag,
                                    OnSynced on_done) {
  return parts_.Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(id, "name"));
    expiry_.RemoveExpired();
    SessionDirectory& directory = parts_.context->directory;
    absl::StatusOr<std::shared_ptr<Session>> found = named_.FindAwake(id);
    if (!found.ok()) {
      if (absl::IsDataLoss(found.status()) &&
          !parts_.persistence->GiveUp(id, found.status())) {
        return found.status();
      }
      const absl::Status usable =
          parts_.persistence ? parts_.persistence->CheckId(id) : absl::OkStatus();
      if (usable.ok()) return found.status();
      if (!absl::IsDataLoss(usable)) return usable;
      parts_.persistence->DeleteDamaged(id, on_done);
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
      if (!etag.empty() && etag != directory.updates().EtagOf(*session)) break;
      MNEMON_RETURN_IF_ERROR(journal.status());
      // Changes until the store has the deletion are acknowledged to nobody. The
      // session does not fall asleep before the answer.
      if (journal.TryDelete(changes, [session, on_done](const absl::Status& status) {
            on_done(status);
          })) {
        return absl::OkStatus();
      }
    }
    return engine_errors::EtagMismatch(id);
  });
}

void SessionMethods::Discard(std::shared_ptr<Session> session, OnSynced on_done) const {
  if (parts_.persistence) {
    parts_.persistence->Delete(*session, std::move(on_done));
  } else {
    if (on_done) on_done(absl::OkStatus());
  }
  parts_.context->directory.Left(*session);
  // Not kept here: the last holder frees its history.
  ModelRunner& runner = *parts_.models.decoder(session->model);
  runner.Forget(std::move(session));
}

absl::Status SessionMethods::Fork(const ForkSessionRequest& request,
                                  OnAnswer<SessionFacts> on_done) {
  return parts_.Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.session, "name"));
    if (!request.id.empty()) {
      MNEMON_RETURN_IF_ERROR(CheckSessionId(request.id, "session_id"));
    }
    MNEMON_RETURN_IF_ERROR(CheckRequestId(request.request_id));
    MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> parent,
                            named_.FindWithHistory(request.session));
    MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> child,
                            named_.Make(request.id, parent->model));
    MNEMON_RETURN_IF_ERROR(CheckSettings(request.settings,
                                         parts_.models.decoder(parent->model)->vocab(),
                                         *parts_.context->options.clock));
    SessionDirectory& directory = parts_.context->directory;
    const SessionDirectory::Facts kept = directory.FactsOf(*parent);
    MNEMON_RETURN_IF_ERROR(named_.MakeDurable(
        child, request.settings.durability,
        parent->journal ? parent->journal->durability() : Durability::kNone,
        /*has_history=*/true));
    Apply(WithDefaults(request.settings, {.ttl = kept.ttl, .sampling = kept.sampling}),
          parts_.context->options, *child);
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
    const std::shared_ptr<ModelRunner> runner = parts_.models.decoder(parent->model);
    const Session* const fresh = child.get();
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> before,
                            named_.FindMadeBy(request.request_id));
    runner->Do(MakeForkTask(
        std::move(parent), std::move(child), request.position, directory,
        [this, fresh, before, on_done = std::move(on_done)](
            absl::StatusOr<std::shared_ptr<Session>> made) mutable {
          if (!made.ok()) return on_done(made.status());
          if (made->get() == fresh) parts_.Report(SessionEvent::kFork);
          expiry_.Wake();
          if (parts_.persistence) parts_.persistence->RequestSnapshot(*made);
          named_.AnswerWhenMade(*made, made->get() == fresh, std::move(on_done));
        }));
    return absl::OkStatus();
  });
}

absl::Status SessionMethods::Rewind(const RewindSessionRequest& request,
                                    OnAnswer<SessionFacts> on_done) {
  return parts_.Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.session, "name"));
    if (const auto* const id = std::get_if<std::string>(&request.target)) {
      MNEMON_RETURN_IF_ERROR(CheckSessionId(*id, "checkpoint_id"));
    }
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                            named_.FindWithHistory(request.session));
    if (session->journal) MNEMON_RETURN_IF_ERROR(session->journal->status());
    const auto settled = [this, session, on_done](const absl::Status& status) {
      if (!status.ok()) return on_done(status);
      parts_.Report(SessionEvent::kRewind);
      AnswerNow(parts_, *session, on_done);
    };
    const auto rewound = [this, session, on_done, settled](
                             absl::StatusOr<std::optional<SessionBefore>> before) {
      if (!before.ok()) return on_done(before.status());
      if (!*before) return on_done(parts_.Busy(*session));
      if (!(*before)->copy) return settled(absl::OkStatus());
      const absl::Status begun = CatchOutOfMemory({}, [&] {
        parts_.persistence->Settle(session, WaiterKind::kFlush, **before, settled);
        return absl::OkStatus();
      });
      if (begun.ok()) return;
      // The session is as the request asked, and is synced with the next turn.
      static_cast<void>(CatchOutOfMemory({}, [&] {
        parts_.models.decoder(session->model)->Do(MakeUnpinTask((*before)->copy));
        return absl::OkStatus();
      }));
      parts_.context->directory.calls().Release(*session, /*taken=*/false);
      on_done(begun);
    };
    const bool stored = session->journal && session->journal->in_store();
    const auto copy = stored ? parts_.MakeUnnamed(session->model) : nullptr;
    const auto rewind = [this, session, copy, request, rewound] {
      ModelRunner& runner = *parts_.models.decoder(session->model);
      runner.Do(
          MakeRewindTask(session, copy, request, parts_.context->directory, rewound));
    };
    const auto* const id = std::get_if<std::string>(&request.target);
    if (!parts_.persistence || id == nullptr) {
      rewind();
      return absl::OkStatus();
    }
    MNEMON_ASSIGN_OR_RETURN(
        const SessionCheckpoint checkpoint,
        parts_.context->directory.checkpoints().Find(*session, *id));
    MNEMON_RETURN_IF_ERROR(parts_.persistence->LoadCheckpoint(*session, checkpoint));
    parts_.persistence->Restore(*session, checkpoint, rewind);
    return absl::OkStatus();
  });
}

int64_t SessionMethods::CountUnstored() const {
  int64_t count = 0;
  std::string after;
  constexpr size_t kAtOnce = 64;
  for (bool more = true; more;) {
    const auto sessions = parts_.context->directory.AwakeAfter(after, kAtOnce);
    for (const auto& session : sessions) {
      count += session->journal == nullptr || !session->journal->durable() ? 1 : 0;
    }
    more = sessions.size() == kAtOnce;
    if (more) after = sessions.back()->id;
  }
  return count;
}

}  // namespace mnemon
