// SPDX-License-Identifier: MIT
#include "server/sessions/session_updates.h"

#include <algorithm>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "base/strings.h"
#include "server/requests/engine_errors.h"
#include "server/sessions/session_bytes.h"
#include "server/sessions/session_journal.h"

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
  std::string present;
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
    if (!etag.empty()) present = EtagLocked(session);
    removed = entry.deleted;
    if (!removed && present == etag) {
      SessionEntry::Undo& before = undo.front();
      before.update = ++entry.newest_update;
      before.updates = entry.updates;
      before.ttl = entry.ttl;
      before.expires_at = entry.expires_at;
      before.expiry = entry.expiry;
      before.sampling = entry.sampling;
      before.paused = entry.paused;
      entry.undos.splice(entry.undos.end(), undo);
      ApplyLocked(session, settings, sampling);
      entry.updates = entry.newest_update;
      return entry.newest_update;
    }
  }
  if (removed) return engine_errors::NotFound(session.id);
  return engine_errors::EtagMismatch(session.id);
}

void SessionUpdates::ApplyLocked(Session& session, const Settings& settings,
                                 std::shared_ptr<const SessionSampling>& sampling) {
  SessionEntry& entry = session.entry;
  if (settings.sampling) SwapSampling(session, sampling);
  if (settings.paused) entry.paused = *settings.paused;
  if (!settings.expiration) return;
  table_.expiries().Stop(session);
  entry.ttl = settings.expiration->ttl;
  entry.expires_at = settings.expiration->expires_at;
  table_.expiries().Start(session);
}

std::optional<Durability> SessionUpdates::Settle(Session& session, uint64_t update,
                                                 bool stored) {
  std::list<SessionEntry::Undo>& undos = session.entry.undos;
  std::list<SessionEntry::Undo> settled;  // destroyed after unlocking
  Lock lock(table_.mutex());
  const auto at = std::find_if(
      undos.begin(), undos.end(),
      [&](const SessionEntry::Undo& undo) { return undo.update == update; });
  if (at == undos.end()) return std::nullopt;
  const auto next = std::next(at);
  settled.splice(settled.end(), undos, at);
  if (stored || session.entry.deleted) return std::nullopt;
  SessionEntry::Undo& before = settled.front();
  if (next != undos.end()) {
    // Undoing the next change has to undo this one, too.
    before.update = next->update;
    *next = std::move(before);
    return std::nullopt;
  }
  UndoLocked(session, before);
  return before.durability;
}

void SessionUpdates::UndoLocked(Session& session, SessionEntry::Undo& before) {
  SessionEntry& entry = session.entry;
  SessionExpiries& expiries = table_.expiries();
  SwapSampling(session, before.sampling);
  entry.paused = before.paused;
  entry.updates = before.updates;
  expiries.Stop(session);
  entry.ttl = before.ttl;
  entry.expires_at = before.expires_at;
  // The old time, rather than a ttl from now.
  if (before.expiry && !entry.held) expiries.StartAt(session, *before.expiry);
  expiries.Start(session);
}

std::string SessionUpdates::EtagOf(const Session& session) const {
  Lock lock(table_.mutex());
  return EtagLocked(session);
}

std::string SessionUpdates::EtagLocked(const Session& session) {
  return StrCat(session.nonce, "-", session.entry.updates, "-",
                session.history.version());
}

}  // namespace mnemon
