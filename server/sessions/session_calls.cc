// SPDX-License-Identifier: MIT
#include "server/sessions/session_calls.h"

#include <algorithm>
#include <mutex>

#include "server/requests/engine_errors.h"
#include "server/sessions/session_journal.h"

namespace mnemon {

using Lock = std::lock_guard<std::mutex>;

namespace {

bool Remembers(const SessionEntry& entry, const std::string& request_id) {
  const auto& ids = entry.request_ids;
  return std::find(ids.begin(), ids.end(), request_id) != ids.end();
}

bool IsHolder(const SessionEntry& entry, const std::string& request_id) {
  const auto& holder = entry.holder_request_id;
  return !holder.empty() && holder.front() == request_id;
}

}  // namespace

absl::StatusOr<bool> SessionCalls::Hold(Session& session, const std::string& request_id,
                                        const Resume* resume) {
  SessionEntry& entry = session.entry;
  bool removed, repeated, paused;
  {
    Lock lock(table_.mutex());
    removed = entry.deleted;
    const bool remembered = !request_id.empty() && Remembers(entry, request_id);
    repeated = remembered && resume == nullptr;
    paused = entry.paused;
    const bool overtaken = resume != nullptr && resume->number != entry.resumes;
    if (!removed && !repeated && !paused && !overtaken) {
      if (entry.held) return false;
      if (resume != nullptr) entry.resumer = resume->call;
      if (!request_id.empty() && !remembered) {
        entry.holder_request_id.push_back(request_id);
      }
      entry.held = true;
      entry.last_use_time = clock_.WallNow();
      if (!entry.expires_at) table_.expiries().Stop(session);
      return true;
    }
  }
  if (removed) return engine_errors::NotFound(session.id);
  if (repeated) return engine_errors::RequestRepeated(session.id);
  if (paused) return engine_errors::SessionPaused(session.id);
  return engine_errors::StreamResumed();
}

bool SessionCalls::Release(Session& session, bool taken) {
  SessionEntry& entry = session.entry;
  CallbackList due;
  bool there;
  {
    Lock lock(table_.mutex());
    due.Take(entry.resumer_turn);
    const auto joined_from = std::exchange(entry.joined_from, std::nullopt);
    taken = taken || joined_from;
    entry.held = false;
    entry.resumer.reset();
    if (taken) entry.scored_from.reset();
    if (taken && !entry.holder_request_id.empty()) {
      entry.scored_from = joined_from;
      RememberHolder(session);
    }
    entry.holder_request_id.clear();
    session.in_runner.running.store(false, std::memory_order_relaxed);
    there = !entry.deleted;
    if (there) {
      entry.last_use_time = clock_.WallNow();
      table_.expiries().Start(session);
    }
  }
  if (!due.empty()) post_(due);
  return there;
}

void SessionCalls::RememberHolder(Session& session) {
  auto& ids = session.entry.request_ids;
  auto& holder = session.entry.holder_request_id;
  const int64_t after = session.charge.bytes() + RememberedBytes(holder.front());
  const bool fits = session.charge.TrySet(after);
  ids.splice(ids.end(), holder);
  if (ids.size() > SessionEntry::kRequestIds || (!fits && ids.size() > 1)) {
    session.charge.Set(after - RememberedBytes(ids.front()));
    ids.pop_front();
  } else {
    session.charge.Set(after);
  }
}

uint64_t SessionCalls::BeginResume(Session& session) {
  Lock lock(table_.mutex());
  return ++session.entry.resumes;
}

bool SessionCalls::IsNewestResume(const Session& session, uint64_t number) const {
  Lock lock(table_.mutex());
  return session.entry.resumes == number;
}

std::shared_ptr<Call> SessionCalls::ResumerOf(const Session& session) const {
  Lock lock(table_.mutex());
  return session.entry.resumer.lock();
}

bool SessionCalls::AwaitTurn(Session& session, const std::string& request_id,
                             CallbackList& turn) {
  SessionEntry& entry = session.entry;
  CallbackList due;
  {
    Lock lock(table_.mutex());
    if (!entry.held || entry.deleted) {
      due.Take(turn);
    } else if (!entry.resumer.expired() || IsHolder(entry, request_id)) {
      due.Take(entry.resumer_turn);
      entry.resumer_turn.Take(turn);
    } else {
      return false;
    }
  }
  if (!due.empty()) post_(due);
  return true;
}

void SessionCalls::PostTurn(Session& session) {
  CallbackList due;
  {
    Lock lock(table_.mutex());
    due.Take(session.entry.resumer_turn);
  }
  if (!due.empty()) post_(due);
}

SessionCalls::IdUse SessionCalls::UseOf(const Session& session,
                                        const std::string& request_id) const {
  Lock lock(table_.mutex());
  if (Remembers(session.entry, request_id)) return IdUse::kRemembered;
  return IsHolder(session.entry, request_id) ? IdUse::kHolds : IdUse::kUnknown;
}

void SessionCalls::SetNewestCall(Session& session,
                                 std::shared_ptr<const CallRecord> record) {
  {
    Lock lock(table_.mutex());
    session.entry.newest_call.swap(record);
    session.charge.Set(session.charge.bytes() - RecordBytes(record.get()) +
                       RecordBytes(session.entry.newest_call.get()));
  }
  if (session.journal) session.journal->TouchRecord();
}

std::shared_ptr<const CallRecord> SessionCalls::NewestCall(
    const Session& session) const {
  Lock lock(table_.mutex());
  return session.entry.newest_call;
}

void SessionCalls::SetJoined(Session& session, int64_t from) {
  Lock lock(table_.mutex());
  session.entry.joined_from = from;
}

std::optional<int64_t> SessionCalls::ScoredFrom(const Session& session,
                                                const std::string& request_id) const {
  Lock lock(table_.mutex());
  const auto& ids = session.entry.request_ids;
  if (ids.empty() || ids.back() != request_id) return std::nullopt;
  return session.entry.scored_from;
}

std::optional<int64_t> SessionCalls::ForgetScored(Session& session) {
  Lock lock(table_.mutex());
  return std::exchange(session.entry.scored_from, std::nullopt);
}

void SessionCalls::TakeBack(Session& session, const SessionBefore& before) {
  {
    Lock lock(table_.mutex());
    session.entry.joined_from.reset();
    if (before.copy) session.entry.scored_from = before.scored_from;
  }
  SetNewestCall(session, before.newest_call);
}

}  // namespace mnemon
