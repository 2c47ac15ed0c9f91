// SPDX-License-Identifier: MIT
#include "server/sessions/session_directory.h"

#include <algorithm>
#include <mutex>
#include <new>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/requests/engine_errors.h"
#include "server/sessions/session_journal.h"

namespace mnemon {

using Lock = std::lock_guard<std::mutex>;
using SessionPointers = std::vector<std::shared_ptr<Session>>;

absl::StatusOr<std::shared_ptr<Session>> SessionDirectory::Insert(
    std::shared_ptr<Session> session) {
  SessionTable::Place place(session);
  session->create_time = session->entry.last_use_time = clock_.WallNow();
  session->charge.Set(FreshBytes(*session));
  std::shared_ptr<Session> other;  // that the same request has created
  std::string sleeping;            // the id of one that sleeps
  bool id_taken = false;
  for (std::shared_ptr<Session> before;; before = nullptr) {
    {
      Lock lock(table_.mutex());
      if (const auto created = table_.CreatedBy(session->request_id)) {
        other = table_.FindAwake(*created);
        if (other == nullptr) sleeping = *created;
      }
      const auto leaving = table_.leaving().find(session->id);
      if (leaving != table_.leaving().end()) before = leaving->second;
      id_taken = table_.Contains(session->id);
      const bool repeats = other != nullptr || !sleeping.empty();
      if (!repeats && !id_taken && before == nullptr &&
          table_.size(session->model) < limit_) {
        table_.Add(place);
        table_.expired().Forget(session->id);
        table_.expiries().Start(*session);
        return session;
      }
    }
    if (before == nullptr) break;
    // What the new session writes has to come after the deletion of the old one.
    if (!DeleteStored(*before)) return OutOfMemoryError();
  }
  if (!sleeping.empty()) return engine_errors::SessionBusy(sleeping, {});
  if (other == nullptr && id_taken) return engine_errors::SessionExists(session->id);
  if (other == nullptr) return engine_errors::SessionLimit(limit_, UntilExpiry());
  const bool same = (session->drawn_id || session->id == other->id) &&
                    session->request_text == other->request_text;
  if (!same) return engine_errors::RequestIdReused(other->id);
  return other;
}

bool SessionDirectory::Restore(std::shared_ptr<Session> session,
                               std::optional<Time> expiry) {
  SessionTable::Place place(session);
  session->charge.Set(WholeBytes(*session));
  Lock lock(table_.mutex());
  if (table_.awake().contains(session->id)) return false;
  table_.Add(place);
  if (expiry) table_.expiries().StartAt(*session, *expiry);
  return true;
}

std::string SessionDirectory::MadeBy(const std::string& request_id) const {
  Lock lock(table_.mutex());
  return std::string(table_.CreatedBy(request_id).value_or(""));
}

std::optional<size_t> SessionDirectory::ModelOf(const std::string& id) const {
  Lock lock(table_.mutex());
  if (const auto awake = table_.FindAwake(id)) return awake->model;
  const auto asleep = table_.asleep().Find(id);
  if (!asleep) return std::nullopt;
  return asleep->facts.model;
}

bool SessionDirectory::Contains(const std::string& id) const {
  Lock lock(table_.mutex());
  return table_.Contains(id);
}

std::shared_ptr<SessionJournal> SessionDirectory::JournalOf(
    const std::string& id) const {
  Lock lock(table_.mutex());
  const auto found = table_.FindAwake(id);
  return found == nullptr ? nullptr : found->journal;
}

absl::StatusOr<SessionPointers> SessionDirectory::From(const std::string& first,
                                                       size_t count,
                                                       std::string& next) const {
  struct Row {
    std::shared_ptr<Session> session;  // null: it sleeps
    std::string id;                    // of a sleeping one
    SleepingFacts facts;
  };
  const Time now = clock_.Now();
  const SessionTable::Sessions& sessions = table_.awake();
  const SleepingSessions::Blocks& sleeping = table_.asleep().blocks();
  std::vector<Row> rows;
  rows.reserve(count);
  next = first;
  for (bool more = true; more && rows.size() < count;) {
    std::string last;
    {
      Lock lock(table_.mutex());
      auto awake = sessions.lower_bound(next);
      auto asleep = sleeping.lower_bound(std::string_view(next));
      for (size_t n = 0; n < 2 * kCopiedAtOnce && rows.size() < count &&
                         (awake != sessions.end() || asleep != sleeping.end());
           ++n) {
        if (asleep == sleeping.end() ||
            (awake != sessions.end() && awake->first < asleep->id())) {
          const std::shared_ptr<Session>& session = (awake++)->second;
          last = session->id;
          if (SessionExpiries::IsExpired(*session, now)) continue;
          rows.push_back({.session = session, .id = {}, .facts = {}});
          continue;
        }
        const SleepingSession found = (asleep++)->Read();
        last = found.id;
        if (found.facts.expiry <= now) continue;
        rows.push_back({.session = nullptr, .id = last, .facts = found.facts});
      }
      more = awake != sessions.end() || asleep != sleeping.end();
    }
    next = more ? last + '\0' : std::string();
  }
  SessionPointers page;
  page.reserve(rows.size());
  for (Row& row : rows) {
    if (row.session == nullptr) {
      auto copy = sleep_.Copy(row.id, row.facts);
      if (engine_errors::IsNoAnswer(copy.status())) return copy.status();
      if (!copy.ok()) continue;
      row.session = *std::move(copy);
    }
    page.push_back(std::move(row.session));
  }
  return page;
}

void SessionDirectory::ForEachAwake(
    const std::function<void(const std::shared_ptr<Session>&)>& visit) const {
  const SessionTable::Sessions& sessions = table_.awake();
  std::string after;
  SessionPointers page;
  do {
    page.clear();
    page.reserve(kCopiedAtOnce);
    {
      Lock lock(table_.mutex());
      auto next = sessions.upper_bound(std::string_view(after));
      for (; next != sessions.end() && page.size() < kCopiedAtOnce; ++next) {
        page.push_back(next->second);
      }
    }
    for (const std::shared_ptr<Session>& session : page) visit(session);
    if (!page.empty()) after = page.back()->id;
  } while (page.size() == kCopiedAtOnce);
}

absl::StatusOr<std::shared_ptr<Session>> SessionDirectory::Remove(
    const std::string& id, const std::string& etag) {
  MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, Find(id));
  bool removed = false;
  {
    Lock lock(table_.mutex());
    removed = session->entry.deleted;
    if (!removed && SessionUpdates::MatchesLocked(*session, etag)) {
      table_.Retire(*session);
      return session;
    }
  }
  return removed ? engine_errors::NotFound(id) : engine_errors::EtagMismatch(id);
}

void SessionDirectory::Left(const Session& session) {
  SessionTable::Sessions::node_type left;  // destroyed after unlocking
  Lock lock(table_.mutex());
  left = table_.TakeLeaving(session);
}

bool SessionDirectory::Retire(const std::shared_ptr<Session>& session) {
  {
    Lock lock(table_.mutex());
    if (session->entry.deleted) return false;
    table_.Retire(*session);
  }
  static_cast<void>(DeleteStored(*session));
  return true;
}

bool SessionDirectory::DeleteStored(const Session& session) try {
  if (session.journal != nullptr) session.journal->Delete(nullptr);
  Left(session);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

SessionPointers SessionDirectory::RemoveExpired() {
  SessionPointers removed, left;
  const Time now = clock_.Now();
  {
    Lock lock(table_.mutex());
    const bool due = table_.expiries().FirstExpired(now) != nullptr;
    if (!due && table_.leaving().empty()) return removed;
  }
  removed.reserve(kExpiredAtOnce);
  left.reserve(kExpiredAtOnce);
  {
    Lock lock(table_.mutex());
    // Memory had run out for these, or another thread deletes them at this moment.
    for (const auto& [id, session] : table_.leaving()) {
      if (left.size() == kExpiredAtOnce) break;
      left.push_back(session);
    }
    while (removed.size() < kExpiredAtOnce) {
      const Session* const expired = table_.expiries().FirstExpired(now);
      if (expired == nullptr) break;
      removed.push_back(table_.awake().at(expired->id));
      table_.Retire(*removed.back());
      table_.expired().Remember(removed.back()->id);
    }
  }
  for (const auto* const sessions : {&left, &removed}) {
    for (const auto& session : *sessions) static_cast<void>(DeleteStored(*session));
  }
  return removed;
}

std::shared_ptr<Session> SessionDirectory::RemoveIfExpired(const std::string& id) {
  std::shared_ptr<Session> expired;
  {
    Lock lock(table_.mutex());
    expired = table_.FindAwake(id);
    if (!expired || !SessionExpiries::IsExpired(*expired, clock_.Now())) return nullptr;
    table_.Retire(*expired);
    table_.expired().Remember(id);
  }
  static_cast<void>(DeleteStored(*expired));
  return expired;
}

std::optional<SessionDirectory::Time> SessionDirectory::NextExpiry() const {
  Lock lock(table_.mutex());
  const std::optional<Time> next = table_.expiries().first();
  const Time due = table_.asleep().due();
  if (due == Time::max()) return next;
  return next ? std::min(*next, due) : due;
}

SessionDirectory::Time::duration SessionDirectory::UntilExpiry() const {
  const std::optional<Time> next = NextExpiry();
  return next ? std::max(*next - clock_.Now(), Time::duration()) : Time::duration();
}

void SessionDirectory::SetResident(Session& session) {
  Lock lock(table_.mutex());
  table_.SetResident(session, true);
}

bool SessionDirectory::SetStored(Session& session) {
  Lock lock(table_.mutex());
  if (session.entry.held || session.entry.deleted || !session.resident) return false;
  session.stored_tokens = session.history.size();
  table_.SetResident(session, false);
  return true;
}

SessionDirectory::Facts SessionDirectory::FactsOf(const Session& session) const {
  const SessionEntry& entry = session.entry;
  Lock lock(table_.mutex());
  const CallRecord* const call = entry.newest_call.get();
  const int64_t tokens =
      session.resident ? session.history.size() : session.stored_tokens;
  return {.held = entry.held,
          .detached = !entry.held && call != nullptr && call->open(tokens),
          .tokens = tokens,
          .last_use_time = entry.last_use_time,
          .expiry = entry.expiry,
          .ttl = entry.ttl,
          .sampling = entry.sampling ? std::optional(*entry.sampling) : std::nullopt,
          .paused = entry.paused};
}

void SessionDirectory::Describe(const Session& session, StoredSession& stored) const {
  if (const auto newest = calls_.NewestCall(session)) {
    stored.newest_call = FormatCallRecord(*newest);
  }
  const SessionEntry& entry = session.entry;
  Lock lock(table_.mutex());
  stored.last_use_time = entry.last_use_time;
  stored.ttl = entry.ttl;
  if (entry.expires_at) {
    stored.expire_time =
        clock_.WallNow() +
        std::chrono::duration_cast<std::chrono::system_clock::duration>(
            *entry.expires_at - clock_.Now());
  }
  if (entry.sampling) stored.sampling = *entry.sampling;
  stored.paused = entry.paused;
  stored.scored_from = entry.scored_from;
  stored.request_ids.assign(entry.request_ids.begin(), entry.request_ids.end());
  if (!entry.joined_from) return;
  stored.scored_from.reset();
  if (entry.holder_request_id.empty()) return;
  stored.scored_from = entry.joined_from;
  stored.request_ids.push_back(entry.holder_request_id.front());
  if (stored.request_ids.size() > SessionEntry::kRequestIds) {
    stored.request_ids.erase(stored.request_ids.begin());
  }
}

int64_t SessionDirectory::size() const {
  Lock lock(table_.mutex());
  return table_.size();
}

int64_t SessionDirectory::size(size_t model) const {
  Lock lock(table_.mutex());
  return table_.size(model);
}

int64_t SessionDirectory::stored(size_t model) const {
  Lock lock(table_.mutex());
  return table_.stored(model);
}

}  // namespace mnemon
