// SPDX-License-Identifier: MIT
// The methods of Engine on sessions.
#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/text/detokenizer.h"
#include "server/engine/engine.h"
#include "server/engine/engine_parts.h"
#include "server/engine/named_sessions.h"
#include "server/requests/engine_errors.h"
#include "server/requests/random.h"
#include "server/sessions/listing/session_pager.h"
#include "server/sessions/session_journal.h"
#include "server/tasks/session_tasks.h"

namespace mnemon {
namespace {

// Sessions that are taken from the directory at once.
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

// The store has refused the checkpoint. Once, by the call that made it.
void DropCheckpoint(const EngineParts& parts, const std::shared_ptr<Session>& session,
                    const SessionCheckpoint& checkpoint) {
  static_cast<void>(CatchOutOfMemory({}, [&] {
    // First: after it left the directory another checkpoint may get its id.
    if (session->journal) session->journal->DropCheckpoint(checkpoint.id);
    if (parts.context->directory.checkpoints().Remove(*session, *checkpoint.at)) {
      parts.models.decoder(session->model)->Forget(checkpoint.at);
    }
    return absl::OkStatus();
  }));
}

// `added`: this call made the checkpoint. Else it repeats the call that did, and the
// checkpoint stays whatever becomes of this one.
void AnswerWhenStored(const EngineParts& parts, const std::shared_ptr<Session>& session,
                      const SessionCheckpoint& checkpoint, bool added,
                      const OnAnswer<CheckpointFacts>& on_done) {
  OnSynced saved;  // set for a checkpoint that was added
  const absl::Status begun = CatchOutOfMemory({}, [&] {
    const OnSynced answer = [checkpoint, on_done](const absl::Status& status) {
      if (!status.ok()) return on_done(status);
      on_done(CatchOutOfMemory({}, [&]() -> absl::StatusOr<CheckpointFacts> {
        return EngineParts::FactsOf(checkpoint);
      }));
    };
    const bool durable = session->journal && session->journal->durable();
    if (!added) {
      const OnSynced known = [&parts, session, checkpoint, durable,
                              answer](const absl::Status& status) {
        if (!status.ok() || !durable ||
            session->journal->HasCheckpoint(checkpoint.id)) {
          return answer(status);
        }
        // It was made while the session was in memory alone.
        parts.persistence->saves().SaveCheckpoint(session, checkpoint, answer);
      };
      checkpoint.stored ? checkpoint.stored->Await(known) : known(absl::OkStatus());
      return absl::OkStatus();
    }
    saved = [&parts, session, checkpoint](const absl::Status& status) {
      if (!status.ok()) DropCheckpoint(parts, session, checkpoint);
      checkpoint.stored->Give(status);
    };
    checkpoint.stored->Await(answer);
    if (durable) {
      parts.persistence->saves().SaveCheckpoint(session, checkpoint, saved);
    } else {
      saved(absl::OkStatus());
    }
    return absl::OkStatus();
  });
  if (begun.ok()) return;
  on_done(begun);
  if (!added || saved) return;
  DropCheckpoint(parts, session, checkpoint);
  checkpoint.stored->Give(begun);
}

// Fills in text and byte_offsets of `part`, which has tokens.
void AddText(const Tokenizer& tokenizer, HistoryPart& part) {
  Utf8Stream utf8;
  for (const int32_t token : part.tokens) {
    part.byte_offsets.push_back(static_cast<int64_t>(part.text.size()));
    part.text += utf8.Push(tokenizer.TokenBytes(token));
  }
  part.text += utf8.Finish();
}

}  // namespace

absl::Status Engine::CreateSession(const CreateSessionRequest& request,
                                   OnAnswer<SessionFacts> on_done) {
  return parts_->Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(NamedSessions::CheckIds(request.id, request.request_id));
    MNEMON_ASSIGN_OR_RETURN(const size_t model,
                            parts_->models.FindDecoder(request.model));
    MNEMON_RETURN_IF_ERROR(parts_->CheckSettings(request.settings, model));
    // A hidden session ends with its conversation.
    const Durability otherwise =
        request.hidden ? Durability::kNone : named_->default_durability();
    MNEMON_ASSIGN_OR_RETURN(
        std::shared_ptr<Session> session,
        named_->Make(request.id, model, request.settings.durability.value_or(otherwise),
                     /*has_history=*/false));
    Apply(request.settings, parts_->context->options, *session);
    if (request.hidden) {
      session->hidden = true;
      session->entry.ttl = parts_->context->options.idle_timeout + kHiddenTime;
      session->entry.expires_at.reset();
    }
    session->request_id = request.request_id;
    if (!request.request_id.empty()) {
      session->request_text = StrCat("create ", model, " ", TextOf(request.settings));
    }
    const Session* const fresh = session.get();
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> before,
                            named_->FindMadeBy(request.request_id));
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> made,
                            parts_->context->directory.Insert(std::move(session)));
    if (made->journal) made->journal->TouchRecord();
    named_->AnswerWhenMade(made, fresh, SessionEvent::kCreate, std::move(on_done));
    return absl::OkStatus();
  });
}

absl::StatusOr<SessionFacts> Engine::GetSession(const std::string& id) try {
  MNEMON_RETURN_IF_ERROR(CheckSessionId(id, "name"));
  MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, named_->Find(id));
  return parts_->FactsOf(*session);
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

absl::StatusOr<std::string> Engine::ModelOfSession(const std::string& id) const {
  const std::optional<size_t> model = parts_->context->directory.ModelOf(id);
  if (!model) return engine_errors::NotFound(id);
  return parts_->models.decoder(*model)->model().facts.name;
}

absl::Status Engine::ReadHistory(const ReadHistoryRequest& request,
                                 OnAnswer<HistoryPart> on_done) {
  return parts_->Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.session, "name"));
    if (request.tokens < 0) {
      return InvalidField("token_count", "token_count must not be negative");
    }
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                            named_->FindWithHistory(request.session));
    const int32_t tokens =
        std::min(request.tokens == 0 ? kDefaultPart : request.tokens, kMostPart);
    ModelRunner& runner = *parts_->models.decoder(session->model);
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

absl::StatusOr<SessionPage> Engine::ListSessions(
    const ListSessionsRequest& request) try {
  MNEMON_ASSIGN_OR_RETURN(SessionPager pager, SessionPager::Parse(request));
  named_->RemoveExpired();
  std::string from = pager.ids().begin;
  for (bool more = true; more && !pager.complete();) {
    std::string next;
    MNEMON_ASSIGN_OR_RETURN(const auto found,
                            parts_->context->directory.From(from, kListedAtOnce, next));
    more = !next.empty();
    for (const auto& session : found) {
      if (pager.ids().end && session->id >= *pager.ids().end) {
        more = false;
        break;
      }
      if (!session->hidden) pager.Add(parts_->FactsOf(*session));
    }
    from = std::move(next);
  }
  return pager.Take();
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

absl::Status Engine::UpdateSession(const UpdateSessionRequest& request,
                                   OnAnswer<SessionFacts> on_done) {
  return parts_->Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.session, "name"));
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                            named_->Find(request.session));
    std::shared_ptr<Session> used;
    const SessionSettings& wanted = request.settings;
    MNEMON_RETURN_IF_ERROR(parts_->CheckSettings(wanted, session->model));
    SessionUpdates::Settings settings{
        .expiration = {}, .sampling = {}, .paused = wanted.paused};
    if (wanted.ttl || wanted.expire_time || request.clear_expiration) {
      settings.expiration = ExpirationOf(wanted, parts_->context->options);
    }
    if (wanted.sampling || request.clear_sampling) settings.sampling = wanted.sampling;
    if (wanted.sampling) {
      // Sampling that is kept counts with the sessions.
      const int64_t bytes = BytesOf(*wanted.sampling);
      const ByteBudget& sessions = parts_->context->memory->small;
      if (!parts_->MakeRoom(bytes, SessionPersistence::Short::kSessions, [&] {
            return sessions.used() <= sessions.limit() - bytes;
          })) {
        return engine_errors::MemoryLimit();
      }
    }
    std::optional<Durability> durability = wanted.durability;
    if (request.clear_durability) durability = named_->default_durability();
    if (session->journal) {
      MNEMON_RETURN_IF_ERROR(session->journal->status());
      // What leaves the store must be in memory.
      if (durability == Durability::kNone) {
        MNEMON_ASSIGN_OR_RETURN(
            used, parts_->persistence->loader().UseWithCheckpoints(session));
      }
    } else if (durability.value_or(Durability::kNone) != Durability::kNone) {
      return engine_errors::NoStore();
    }
    MNEMON_ASSIGN_OR_RETURN(
        const uint64_t update,
        parts_->context->directory.updates().Update(*session, request.etag, settings));
    named_->WakeExpiry();
    if (session->journal) {
      if (durability && session->journal->SetDurability(*durability)) {
        parts_->persistence->StoreAnew(session);
      }
      session->journal->TouchRecord();
    }
    // In memory until it is stored.
    parts_->AnswerWhenSynced(session, [this, session, used, update,
                                       on_done](absl::StatusOr<SessionFacts> facts) {
      const auto before = parts_->context->directory.updates().Settle(
          *session, update, /*stored=*/facts.ok());
      if (before && session->journal && session->journal->Restore(*before)) {
        parts_->persistence->StoreAnew(session);
      }
      on_done(std::move(facts));
    });
    return absl::OkStatus();
  });
}

absl::Status Engine::DeleteSession(const std::string& id, const std::string& etag,
                                   OnSynced on_done) {
  return parts_->Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(id, "name"));
    named_->RemoveExpired();
    SessionDirectory& directory = parts_->context->directory;
    absl::StatusOr<std::shared_ptr<Session>> found = named_->FindAwake(id);
    if (!found.ok()) {
      if (absl::IsDataLoss(found.status()) &&
          !parts_->persistence->unusable().GiveUp(id, found.status())) {
        return found.status();
      }
      const absl::Status usable = parts_->persistence
                                      ? parts_->persistence->unusable().Check(id)
                                      : absl::OkStatus();
      if (usable.ok()) return found.status();
      if (!absl::IsDataLoss(usable)) return usable;
      parts_->persistence->DeleteDamaged(id, on_done);
      return absl::OkStatus();
    }
    const std::shared_ptr<Session> session = *std::move(found);
    if (!session->journal || !session->journal->in_store()) {
      MNEMON_ASSIGN_OR_RETURN(auto removed, directory.Remove(id, etag));
      if (removed->journal) {
        removed->journal->Delete([on_done](const absl::Status& status) {
          if (on_done) on_done(status);
        });
      } else if (on_done) {
        on_done(absl::OkStatus());
      }
      directory.Left(*removed);
      parts_->models.decoder(removed->model)->Forget(std::move(removed));
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

absl::Status Engine::ForkSession(const ForkSessionRequest& request,
                                 OnAnswer<SessionFacts> on_done) {
  return parts_->Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.session, "name"));
    MNEMON_RETURN_IF_ERROR(NamedSessions::CheckIds(request.id, request.request_id));
    MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> parent,
                            named_->FindWithHistory(request.session));
    MNEMON_RETURN_IF_ERROR(parts_->CheckSettings(request.settings, parent->model));
    const Durability otherwise =
        parent->journal ? parent->journal->durability() : Durability::kNone;
    MNEMON_ASSIGN_OR_RETURN(
        std::shared_ptr<Session> child,
        named_->Make(request.id, parent->model,
                     request.settings.durability.value_or(otherwise),
                     /*has_history=*/true));
    SessionDirectory& directory = parts_->context->directory;
    const SessionDirectory::Facts kept = directory.FactsOf(*parent);
    Apply(WithDefaults(request.settings, {.ttl = kept.ttl, .sampling = kept.sampling}),
          parts_->context->options, *child);
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
    const Session* const fresh = child.get();
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> before,
                            named_->FindMadeBy(request.request_id));
    parts_->models.decoder(child->model)
        ->Do(MakeForkTask(
            std::move(parent), std::move(child), request.position,
            [this, fresh, before, on_done = std::move(on_done)](const auto& made) {
              named_->AnswerWhenMade(made, fresh, SessionEvent::kFork, on_done);
            }));
    return absl::OkStatus();
  });
}

absl::Status Engine::RewindSession(const RewindSessionRequest& request,
                                   OnAnswer<SessionFacts> on_done) {
  return parts_->Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.session, "name"));
    const auto* const id = std::get_if<std::string>(&request.target);
    if (id) MNEMON_RETURN_IF_ERROR(CheckSessionId(*id, "checkpoint_id"));
    MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                            named_->FindWithHistory(request.session));
    if (session->journal) MNEMON_RETURN_IF_ERROR(session->journal->status());
    const auto settled = [this, session, on_done](const absl::Status& status) {
      if (!status.ok()) return on_done(status);
      parts_->Report(SessionEvent::kRewind);
      parts_->AnswerNow(*session, on_done);
    };
    const auto rewound = [this, session, on_done, settled](
                             absl::StatusOr<std::optional<SessionBefore>> before) {
      if (!before.ok()) return on_done(before.status());
      if (!*before) return on_done(parts_->Busy(*session));
      if (!(*before)->copy) return settled(absl::OkStatus());
      const absl::Status begun = CatchOutOfMemory({}, [&] {
        parts_->persistence->Settle(session, WaiterKind::kFlush, **before, settled);
        return absl::OkStatus();
      });
      if (begun.ok()) return;
      // The session is as the request asked, and is synced with the next turn.
      static_cast<void>(CatchOutOfMemory({}, [&] {
        parts_->models.decoder(session->model)->Do(MakeUnpinTask((*before)->copy));
        return absl::OkStatus();
      }));
      parts_->context->directory.calls().Release(*session, /*taken=*/false);
      on_done(begun);
    };
    const bool stored = session->journal && session->journal->in_store();
    const auto copy = stored ? parts_->MakeUnnamed(session->model) : nullptr;
    const auto rewind = [this, session, copy, request, rewound] {
      parts_->models.decoder(session->model)
          ->Do(MakeRewindTask(session, copy, request, rewound));
    };
    if (!parts_->persistence || id == nullptr) {
      rewind();
      return absl::OkStatus();
    }
    MNEMON_ASSIGN_OR_RETURN(
        const SessionCheckpoint checkpoint,
        parts_->context->directory.checkpoints().Find(*session, *id));
    MNEMON_RETURN_IF_ERROR(
        parts_->persistence->loader().LoadCheckpoint(*session, checkpoint));
    parts_->persistence->loader().Restore(*session, checkpoint, rewind);
    return absl::OkStatus();
  });
}

absl::Status Engine::CheckpointSession(const CheckpointSessionRequest& request,
                                       OnAnswer<CheckpointFacts> on_done) {
  return parts_->Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.session, "name"));
    MNEMON_RETURN_IF_ERROR(
        NamedSessions::CheckIds(request.id, request.request_id, "checkpoint_id"));
    MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                            named_->FindWithHistory(request.session));
    if (session->journal) MNEMON_RETURN_IF_ERROR(session->journal->status());
    auto at = std::make_shared<Session>("", session->model, parts_->context->memory);
    MNEMON_RETURN_IF_ERROR(parts_->ChargeNew(*at, Session::kCheckpointBytes));
    const Session* const fresh = at.get();
    SessionCheckpoint checkpoint{.id = request.id.empty() ? RandomId() : request.id,
                                 .request_id = request.request_id,
                                 .create_time = {},
                                 .at = std::move(at),
                                 .stored = std::make_shared<SharedAnswer>()};
    parts_->models.decoder(session->model)
        ->Do(MakeCheckpointTask(session, std::move(checkpoint), request.id.empty(),
                                [this, session, fresh, on_done = std::move(on_done)](
                                    absl::StatusOr<SessionCheckpoint> made) {
                                  if (!made.ok()) return on_done(made.status());
                                  const bool added = made->at.get() == fresh;
                                  if (added) parts_->Report(SessionEvent::kCheckpoint);
                                  AnswerWhenStored(*parts_, session, *made, added,
                                                   on_done);
                                }));
    return absl::OkStatus();
  });
}

int64_t Engine::CountUnstored() const {
  int64_t count = 0;
  parts_->context->directory.ForEachAwake([&](const auto& session) {
    count += session->journal == nullptr || !session->journal->durable() ? 1 : 0;
  });
  return count;
}

}  // namespace mnemon
