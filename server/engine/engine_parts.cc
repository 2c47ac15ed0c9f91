// SPDX-License-Identifier: MIT
#include "server/engine/engine_parts.h"

#include <utility>

#include "server/requests/engine_errors.h"
#include "server/sessions/session_journal.h"

namespace mnemon {
namespace {

// The tier is the disk where the history, or the state that the next call goes on from,
// is in the store alone.
SessionTier TierOf(const EngineParts& parts, const Session& session,
                   SessionState state) {
  if (state == SessionState::kRunning) return SessionTier::kDevice;
  // A state at rest stays in the memory that steps compute in.
  if (session.in_runner.state_bytes > 0) {
    return parts.models.decoder(session.model)->state_on_host() ? SessionTier::kHost
                                                                : SessionTier::kDevice;
  }
  if (session.in_runner.image_bytes > 0) return SessionTier::kHost;
  const bool stored = !session.resident || SessionLoader::CanRestore(session);
  return stored ? SessionTier::kDisk : SessionTier::kHost;
}

}  // namespace

void EngineParts::Report(SessionEvent event) const {
  EngineObserver* const observer = context->options.observer.get();
  if (observer != nullptr) observer->OnSessionEvent(event);
}

CallLimits EngineParts::LimitsOf(const ModelRunner& runner) const {
  return {.vocab = runner.vocab(),
          .max_tokens = context->options.max_tokens,
          .max_prompt_tokens = context->options.max_prompt_tokens};
}

absl::Status EngineParts::CheckSettings(const SessionSettings& settings,
                                        size_t model) const {
  return mnemon::CheckSettings(settings, models.decoder(model)->vocab(),
                               *context->options.clock);
}

absl::Status EngineParts::Busy(const Session& session) const {
  return engine_errors::SessionBusy(session.id,
                                    models.decoder(session.model)->TimeLeft());
}

std::shared_ptr<Session> EngineParts::MakeUnnamed(size_t model) const {
  return std::make_shared<Session>("", model, context->memory, &EngineMemory::prompts);
}

bool EngineParts::MakeRoom(int64_t bytes, std::optional<SessionPersistence::Short> of,
                           const std::function<bool()>& fits) const {
  if (persistence && of) return persistence->sweeps().MakeRoom(bytes, *of, fits);
  if (fits()) return true;
  if (of != SessionPersistence::Short::kSessions) context->AskForMemory(bytes);
  return false;
}

absl::Status EngineParts::ChargeNew(Session& session, int64_t bytes) const {
  using Short = SessionPersistence::Short;
  const EngineMemory& memory = *context->memory;
  if (!MakeRoom(bytes, Short::kSessions, [&] {
        return memory.sessions.bytes() <= memory.shares.new_sessions - bytes;
      })) {
    return engine_errors::SessionMemory(memory.shares.new_sessions);
  }
  return MakeRoom(bytes, Short::kResting, [&] { return session.charge.TrySet(bytes); })
             ? absl::OkStatus()
             : engine_errors::MemoryLimit();
}

SessionFacts EngineParts::FactsOf(const Session& session) const {
  SessionDirectory& directory = context->directory;
  const SessionDirectory::Facts kept = directory.FactsOf(session);
  SessionFacts facts;
  const ModelFacts& model = models.model(session.model).facts;
  facts.id = session.id;
  facts.model = model.name;
  facts.model_id = model.model_id;
  facts.numerics_id = model.numerics_id;
  facts.parent = session.parent;
  facts.rebuilt = session.rebuilt;
  facts.etag = directory.updates().EtagOf(session);
  for (const SessionCheckpoint& checkpoint : directory.checkpoints().Of(session)) {
    facts.checkpoints.push_back(FactsOf(checkpoint));
  }
  facts.paused = kept.paused;
  facts.sampling = kept.sampling;
  if (kept.detached) facts.state = SessionState::kDetached;
  if (kept.paused) facts.state = SessionState::kPaused;
  if (kept.held) {
    facts.state =
        session.in_runner.running ? SessionState::kRunning : SessionState::kQueued;
  }
  facts.position = kept.tokens;
  if (session.journal) facts.durability = session.journal->durability();
  facts.state_size_bytes =
      session.in_runner.state_bytes + session.in_runner.image_bytes;
  facts.tier = TierOf(*this, session, facts.state);
  facts.create_time = session.create_time;
  facts.last_use_time = kept.last_use_time;
  if (kept.expiry) {
    // From what is left, so that a jump of the wall clock moves nothing but its
    // reading.
    const Clock& clock = *context->options.clock;
    facts.expire_time = clock.WallNow() + (*kept.expiry - clock.Now());
  }
  return facts;
}

CheckpointFacts EngineParts::FactsOf(const SessionCheckpoint& checkpoint) {
  return {.id = checkpoint.id,
          .position = checkpoint.at->stored_tokens,
          .create_time = checkpoint.create_time,
          .size_bytes = checkpoint.at->in_runner.state_bytes};
}

void EngineParts::AnswerNow(const Session& session,
                            const OnAnswer<SessionFacts>& on_done) const {
  on_done(CatchOutOfMemory(
      {}, [&]() -> absl::StatusOr<SessionFacts> { return FactsOf(session); }));
}

void EngineParts::AnswerWhenSynced(const std::shared_ptr<Session>& session,
                                   OnAnswer<SessionFacts> on_done) const {
  const auto answer = [this, session,
                       on_done = std::move(on_done)](const absl::Status& status) {
    if (!status.ok()) return on_done(status);
    AnswerNow(*session, on_done);
  };
  if (!session->journal) return answer(absl::OkStatus());
  session->journal->Flush(WaiterKind::kFlush, answer);
}

}  // namespace mnemon
