// SPDX-License-Identifier: MIT
#include "server/engine/session_facts.h"

#include <atomic>
#include <utility>

#include "base/out_of_memory.h"
#include "server/sessions/session_journal.h"

namespace mnemon {
namespace {

// The tier is the disk where the history, or the state that the next call goes on from,
// is in the store alone.
SessionTier TierOf(const EngineParts& parts, const Session& session,
                   SessionState state) {
  if (state == SessionState::kRunning) return SessionTier::kDevice;
  // A state at rest stays in the memory that steps compute in.
  if (session.in_runner.state_bytes.load(std::memory_order_relaxed) > 0) {
    return parts.models.decoder(session.model)->state_on_host() ? SessionTier::kHost
                                                                : SessionTier::kDevice;
  }
  if (session.in_runner.image_bytes.load(std::memory_order_relaxed) > 0) {
    return SessionTier::kHost;
  }
  const bool stored = !session.resident.load(std::memory_order_acquire) ||
                      (parts.persistence && parts.persistence->CanRestore(session));
  return stored ? SessionTier::kDisk : SessionTier::kHost;
}

}  // namespace

SessionFacts FactsOf(const EngineParts& parts, const Session& session) {
  SessionDirectory& directory = parts.context->directory;
  const SessionDirectory::Facts kept = directory.FactsOf(session);
  SessionFacts facts;
  const ModelFacts& model = parts.models.model(session.model).facts;
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
    facts.state = session.in_runner.running.load(std::memory_order_relaxed)
                      ? SessionState::kRunning
                      : SessionState::kQueued;
  }
  facts.position = kept.tokens;
  if (session.journal) facts.durability = session.journal->durability();
  facts.state_size_bytes =
      session.in_runner.state_bytes.load(std::memory_order_relaxed) +
      session.in_runner.image_bytes.load(std::memory_order_relaxed);
  facts.tier = TierOf(parts, session, facts.state);
  facts.create_time = session.create_time;
  facts.last_use_time = kept.last_use_time;
  if (kept.expiry) {
    // From what is left, so that a jump of the wall clock moves nothing but its
    // reading.
    const Clock& clock = *parts.context->options.clock;
    facts.expire_time = clock.WallNow() + (*kept.expiry - clock.Now());
  }
  return facts;
}

CheckpointFacts FactsOf(const SessionCheckpoint& checkpoint) {
  return {.id = checkpoint.id,
          .position = checkpoint.at->stored_tokens,
          .create_time = checkpoint.create_time,
          .size_bytes =
              checkpoint.at->in_runner.state_bytes.load(std::memory_order_relaxed)};
}

void AnswerNow(const EngineParts& parts, const Session& session,
               const OnAnswer<SessionFacts>& on_done) {
  on_done(CatchOutOfMemory(
      {}, [&]() -> absl::StatusOr<SessionFacts> { return FactsOf(parts, session); }));
}

void AnswerWhenSynced(const EngineParts& parts, const std::shared_ptr<Session>& session,
                      OnAnswer<SessionFacts> on_done) {
  const auto answer = [&parts, session,
                       on_done = std::move(on_done)](const absl::Status& status) {
    if (!status.ok()) return on_done(status);
    AnswerNow(parts, *session, on_done);
  };
  if (!session->journal) return answer(absl::OkStatus());
  session->journal->Flush(WaiterKind::kFlush, answer);
}

}  // namespace mnemon
