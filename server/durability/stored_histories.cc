// SPDX-License-Identifier: MIT
#include "server/durability/stored_histories.h"

#include <functional>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/durability/journal_entry.h"
#include "server/durability/stored_journal.h"
#include "server/requests/engine_errors.h"
#include "server/requests/request_check.h"

namespace mnemon {

absl::Status StoredHistories::Load(Session& session) try {
  if (session.resident) return absl::OkStatus();
  std::lock_guard loading(LoadingOf(session));
  if (session.resident) return absl::OkStatus();
  const auto tokens = Read(session);
  if (tokens.ok()) return SetHistory(session, *tokens);
  // It was deleted meanwhile, or the store has that and the directory is about to.
  if ((absl::IsDataLoss(tokens.status()) && JournalOf(session).leaves_store()) ||
      !context_.directory.Contains(session.id)) {
    return engine_errors::NotFound(session.id);
  }
  // What the disk does not give just now it may give later.
  if (absl::IsDataLoss(tokens.status())) {
    LogError(StrCat("session ", session.id, ": ", tokens.status().message()));
  }
  return tokens.status();
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

absl::Status StoredHistories::Load(const Session& owner,
                                   const SessionCheckpoint& checkpoint) try {
  Session& at = *checkpoint.at;
  if (at.resident) return absl::OkStatus();
  std::lock_guard loading(LoadingOf(owner));
  if (at.resident) return absl::OkStatus();
  const absl::StatusOr<std::optional<std::string>> bytes =
      stores_.store.Get(StoreTable::kCheckpoints, {.id = owner.id}, checkpoint.id);
  if (!bytes.ok() && !absl::IsDataLoss(bytes.status())) return bytes.status();
  const auto tokens = ParseTokens(bytes.ok() ? bytes->value_or("?") : "?");
  if (tokens.ok() && CheckTokens(*tokens, owner.model).ok()) {
    return SetHistory(at, *tokens);
  }
  LogError(StrCat("session ", owner.id, ": the history of its checkpoint ",
                  checkpoint.id, " is missing or damaged"));
  return engine_errors::CheckpointDamaged(owner.id, checkpoint.id);
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

absl::StatusOr<std::vector<int32_t>> StoredHistories::Read(const Session& session) {
  std::vector<int32_t> tokens;
  std::optional<uint64_t> before;
  absl::Status status;
  const SessionKey key{.id = session.id};
  const auto damaged = [&] {
    status.Update(
        engine_errors::SessionDamaged(session.id, static_cast<int64_t>(tokens.size())));
  };
  MNEMON_RETURN_IF_ERROR(stores_.store.Scan(
      StoreTable::kJournal, {.session = key},
      [&](const SessionKey&, std::string_view name, std::string_view value) {
        const absl::Status applied = CatchOutOfMemory({}, [&]() -> absl::Status {
          const std::optional<uint64_t> sequence = JournalSequence(name);
          if (before && sequence != *before + 1) {
            return absl::DataLossError("an entry is missing");
          }
          before = sequence;
          MNEMON_ASSIGN_OR_RETURN(const JournalEntry entry, ParseJournalEntry(value));
          return ApplyJournalEntry(entry, tokens);
        });
        if (absl::IsDataLoss(applied)) {
          damaged();
        } else {
          status.Update(applied);
        }
        return status.ok();
      },
      [&](const UnreadableRange&) { damaged(); }));
  const auto size = static_cast<size_t>(session.stored_tokens);
  if (status.ok() && tokens.size() < size) damaged();
  MNEMON_RETURN_IF_ERROR(status);
  tokens.resize(size);
  MNEMON_RETURN_IF_ERROR(CheckTokens(tokens, session.model));
  return tokens;
}

absl::Status StoredHistories::CheckTokens(const std::vector<int32_t>& tokens,
                                          size_t model) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    MNEMON_RETURN_IF_ERROR(
        CheckToken(tokens[i], i, "history", stores_.runners[model]->vocab()));
  }
  return absl::OkStatus();
}

absl::Status StoredHistories::SetHistory(Session& session,
                                         const std::vector<int32_t>& tokens) {
  if (!session.history.Stage(tokens, 0)) return engine_errors::MemoryLimit();
  const uint64_t version = session.history.version();
  session.history.AppendStaged();
  session.history.SetVersion(version);
  if (session.journal == nullptr) {  // a checkpoint's
    session.resident = true;
    return absl::OkStatus();
  }
  JournalOf(session).SetSize(session.history.size());
  session.history.SetObserver(session.journal.get());
  context_.directory.SetResident(session);
  return absl::OkStatus();
}

std::mutex& StoredHistories::LoadingOf(const Session& session) {
  return loading_[std::hash<std::string>()(session.id) % loading_.size()];
}

int64_t StoredHistories::Unload(Session& session) {
  // Who loads one at this moment uses it.
  const std::unique_lock loading(LoadingOf(session), std::try_to_lock);
  if (!loading || session.in_runner.state_bytes > 0 ||
      session.in_runner.image_bytes > 0)
    return 0;
  // One without tokens has nothing to unload but its checkpoints, and one that has left
  // already may have left them behind.
  const auto facts = context_.directory.FactsOf(session);
  if (facts.held) return 0;
  const bool whole = session.resident && facts.tokens > 0;
  if (whole && !context_.directory.SetStored(session)) return 0;
  if (session.history_uses > 0 || !JournalOf(session).AllStored()) {
    if (whole) context_.directory.SetResident(session);
    return 0;
  }
  const auto bytes = [](const Session& of) {
    return of.history.BytesOf(of.stored_tokens);
  };
  int64_t freed = 0;
  if (whole) {
    freed = bytes(session);
    session.history.Unload();
  }
  for (const SessionCheckpoint& checkpoint :
       context_.directory.checkpoints().Of(session)) {
    Session& at = *checkpoint.at;
    if (!at.resident || at.in_runner.state_bytes > 0 || at.in_runner.image_bytes > 0 ||
        !session.journal->HasCheckpoint(checkpoint.id)) {
      continue;
    }
    at.resident = false;
    at.history.Unload();
    freed += bytes(at);
  }
  ++unloaded_;
  return freed;
}

}  // namespace mnemon
