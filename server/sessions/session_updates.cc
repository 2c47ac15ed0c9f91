// SPDX-License-Identifier: MIT
#include "server/sessions/session_updates.h"

#include <algorithm>
#include <iterator>
#include <list>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/requests/engine_errors.h"
#include "server/requests/request_check.h"
#include "server/sessions/session_journal.h"
#include "server/sessions/stored_session.h"

namespace mnemon {

using Lock = std::lock_guard<std::mutex>;

namespace {

void SwapSampling(Session& session, std::shared_ptr<const SessionSampling>& sampling) {
  const int64_t before = SamplingBytes(session);
  session.entry.sampling.swap(sampling);
  session.charge.Set(session.charge.bytes() + SamplingBytes(session) - before);
}

}  // namespace

absl::StatusOr<uint64_t> SessionUpdates::Update(Session& session,
                                                const std::string& etag,
                                                const Settings& settings) {
  SessionEntry& entry = session.entry;
  bool removed = false;
  // Swapped into the session; the old value is destroyed after unlocking.
  std::shared_ptr<const SessionSampling> sampling;
  if (settings.sampling && *settings.sampling) {
    sampling = std::make_shared<const SessionSampling>(**settings.sampling);
  }
  std::list<SessionEntry::Undo> undo(1);
  if (session.journal) undo.front().durability = session.journal->durability();
  {
    Lock lock(table_.mutex());
    removed = entry.deleted;
    if (!removed && MatchesLocked(session, etag)) {
      SessionEntry::Undo& before = undo.front();
      before.update = ++entry.newest_update;
      before.updates = entry.updates;
      before.settings = entry;
      before.expiry = entry.expiry;
      entry.undos.splice(entry.undos.end(), undo);
      entry.updates = entry.newest_update;
      if (settings.sampling) SwapSampling(session, sampling);
      if (settings.paused) entry.paused = *settings.paused;
      if (settings.expiration) {
        table_.expiries().Stop(session);
        static_cast<Expiration&>(entry) = *settings.expiration;
        table_.expiries().Start(session);
      }
      return entry.newest_update;
    }
  }
  return removed ? engine_errors::NotFound(session.id)
                 : engine_errors::EtagMismatch(session.id);
}

std::optional<Durability> SessionUpdates::Settle(Session& session, uint64_t update,
                                                 bool stored) {
  SessionEntry& entry = session.entry;
  std::list<SessionEntry::Undo>& undos = entry.undos;
  std::list<SessionEntry::Undo> settled;  // destroyed after unlocking
  Lock lock(table_.mutex());
  const auto at = std::ranges::find(undos, update, &SessionEntry::Undo::update);
  if (at == undos.end()) return std::nullopt;
  const auto next = std::next(at);
  settled.splice(settled.end(), undos, at);
  if (stored || entry.deleted) return std::nullopt;
  SessionEntry::Undo& before = settled.front();
  if (next != undos.end()) {
    // Undoing the next change has to undo this one, too.
    before.update = next->update;
    *next = std::move(before);
    return std::nullopt;
  }
  SwapSampling(session, before.settings.sampling);
  entry.updates = before.updates;
  entry.paused = before.settings.paused;
  SessionExpiries& expiries = table_.expiries();
  expiries.Stop(session);
  static_cast<Expiration&>(entry) = before.settings;
  // The old time, rather than a ttl from now.
  if (before.expiry && !entry.held) expiries.StartAt(session, *before.expiry);
  expiries.Start(session);
  return before.durability;
}

std::string SessionUpdates::EtagOf(const Session& session) const {
  Lock lock(table_.mutex());
  return EtagLocked(session);
}

bool SessionUpdates::MatchesLocked(const Session& session, const std::string& etag) {
  return etag.empty() || etag == EtagLocked(session);
}

std::string SessionUpdates::EtagLocked(const Session& session) {
  return StrCat(session.nonce, "-", session.entry.updates, "-",
                session.history.version());
}

absl::StatusOr<SessionCheckpoint> SessionCheckpoints::Add(Session& session,
                                                          SessionCheckpoint checkpoint,
                                                          bool drawn_id) {
  checkpoint.create_time = clock_.WallNow();
  bool removed, reused, taken;
  {
    Lock lock(table_.mutex());
    SessionEntry& entry = session.entry;
    auto& all = entry.checkpoints;
    const auto made = std::ranges::find_if(all, [&](const auto& other) {
      return !checkpoint.request_id.empty() &&
             other.request_id == checkpoint.request_id;
    });
    reused = made != all.end();
    if (reused && (drawn_id || made->id == checkpoint.id)) return *made;
    removed = entry.deleted;
    taken = std::ranges::count(all, checkpoint.id, &SessionCheckpoint::id) > 0;
    if (!removed && !reused && !taken && all.size() < SessionEntry::kCheckpoints) {
      checkpoint.update_before = entry.updates;
      checkpoint.update = entry.newest_update + 1;
      all.push_back(checkpoint);
      entry.updates = entry.newest_update = checkpoint.update;
      return checkpoint;
    }
  }
  if (removed) return engine_errors::NotFound(session.id);
  if (reused) return engine_errors::RequestIdReused(session.id);
  if (taken) return engine_errors::CheckpointExists(session.id, checkpoint.id);
  return engine_errors::CheckpointLimit(session.id, SessionEntry::kCheckpoints);
}

bool SessionCheckpoints::Remove(Session& session, const Session& at) {
  // Allocated before locking, destroyed after unlocking.
  std::vector<SessionCheckpoint> removed;
  removed.reserve(1);
  Lock lock(table_.mutex());
  SessionEntry& entry = session.entry;
  auto& all = entry.checkpoints;
  const auto found = std::ranges::find_if(
      all, [&](const auto& checkpoint) { return checkpoint.at.get() == &at; });
  // The list of a removed session does not change.
  if (found == all.end() || entry.deleted) return false;
  const bool newest = entry.updates == found->update;
  entry.updates = newest ? found->update_before : ++entry.newest_update;
  removed.push_back(std::move(*found));
  all.erase(found);
  return true;
}

absl::StatusOr<SessionCheckpoint> SessionCheckpoints::Find(
    const Session& session, const std::string& id) const {
  {
    Lock lock(table_.mutex());
    for (const SessionCheckpoint& checkpoint : session.entry.checkpoints) {
      if (checkpoint.id == id) return checkpoint;
    }
  }
  return engine_errors::CheckpointNotFound(session.id, id);
}

std::vector<SessionCheckpoint> SessionCheckpoints::Of(const Session& session) const {
  Lock lock(table_.mutex());
  return session.entry.checkpoints;
}

absl::Status CheckSettings(const SessionSettings& settings, int64_t vocab,
                           const Clock& clock) {
  MNEMON_RETURN_IF_ERROR(CheckTtl(settings.ttl));
  if (settings.ttl && settings.expire_time) {
    return InvalidField("expire_time", "a session has a ttl or an expire_time");
  }
  if (settings.expire_time) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        *settings.expire_time - clock.WallNow());
    if (!CheckTtl(left).ok()) {
      return InvalidField("expire_time",
                          "expire_time must lie ahead, by at most 100 years");
    }
  }
  if (settings.sampling) {
    MNEMON_RETURN_IF_ERROR(ValidateSampling(settings.sampling->values, vocab));
  }
  return absl::OkStatus();
}

Expiration ExpirationOf(const SessionSettings& settings, const EngineOptions& options) {
  const auto& most = options.max_session_ttl;
  const Clock& clock = *options.clock;
  if (settings.expire_time) {
    auto left = *settings.expire_time - clock.WallNow();
    if (most) left = std::min<decltype(left)>(left, *most);
    return {.ttl = std::nullopt, .expires_at = clock.Now() + left};
  }
  const auto wanted = settings.ttl ? settings.ttl : options.session_ttl;
  return {.ttl = wanted && most ? std::min(*wanted, *most)
                 : wanted       ? wanted
                                : most,
          .expires_at = std::nullopt};
}

void Apply(const SessionSettings& settings, const EngineOptions& options,
           Session& session) {
  static_cast<Expiration&>(session.entry) = ExpirationOf(settings, options);
  session.entry.sampling =
      settings.sampling ? std::make_shared<const SessionSampling>(*settings.sampling)
                        : nullptr;
  session.entry.paused = settings.paused.value_or(false);
}

SessionSettings WithDefaults(SessionSettings settings,
                             const SessionSettings& defaults) {
  if (!settings.ttl && !settings.expire_time) settings.ttl = defaults.ttl;
  if (!settings.sampling) settings.sampling = defaults.sampling;
  if (!settings.durability) settings.durability = defaults.durability;
  return settings;
}

std::string TextOf(const SessionSettings& settings) {
  return StrCat(
      FormatSessionRecord(settings), " ",
      settings.expire_time ? settings.expire_time->time_since_epoch().count() : 0, " ",
      settings.paused.value_or(false),
      settings.durability ? StrCat(" ", static_cast<int>(*settings.durability)) : "");
}

}  // namespace mnemon
