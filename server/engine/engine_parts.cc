// SPDX-License-Identifier: MIT
#include "server/engine/engine_parts.h"

#include "server/requests/engine_errors.h"

namespace mnemon {

void EngineParts::Report(SessionEvent event) const {
  EngineObserver* const observer = context->options.observer.get();
  if (observer != nullptr) observer->OnSessionEvent(event);
}

CallLimits EngineParts::LimitsOf(const ModelRunner& runner) const {
  return {.vocab = runner.vocab(),
          .max_tokens = context->options.max_tokens,
          .max_prompt_tokens = context->options.max_prompt_tokens};
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
  if (persistence && of) return persistence->MakeRoom(bytes, *of, fits);
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

}  // namespace mnemon
