// SPDX-License-Identifier: MIT
// Sessions that sleep: of which the store has all, and the directory the name.
#include <algorithm>
#include <utility>

#include "server/engine/engine_errors.h"
#include "server/engine/session_bytes.h"
#include "server/engine/session_directory.h"

namespace mnemon {

using Lock = std::lock_guard<std::mutex>;

std::shared_ptr<SessionJournal> SessionDirectory::JournalOf(
    const std::string& id) const {
  Lock lock(mutex_);
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second->journal;
}

SessionDirectory::Sessions::iterator SessionDirectory::FindIdleLocked(
    const std::string& id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second.use_count() > 1) return sessions_.end();
  const Session& session = *found->second;
  const bool idle =
      session.journal != nullptr && !session.held && session.history.size() == 0 &&
      session.history.staged() == 0 &&
      std::all_of(session.checkpoints.begin(), session.checkpoints.end(),
                  [](const SessionCheckpoint& checkpoint) {
                    return !checkpoint.at->resident && checkpoint.at.use_count() == 1;
                  });
  return idle ? found : sessions_.end();
}

int64_t SessionDirectory::Sleep(const std::string& id) {
  // What goes is destroyed after the lock.
  std::shared_ptr<Session> session;
  std::shared_ptr<SessionJournal> journal;
  std::string request_id;
  SleepingFacts facts;
  {
    Lock lock(mutex_);
    const auto found = FindIdleLocked(id);
    if (found == sessions_.end()) return 0;
    const Session& idle = *found->second;
    journal = idle.journal;
    request_id = idle.request_id;
    facts.model = static_cast<uint32_t>(idle.model);
    facts.nonce = idle.nonce;
    facts.updates = idle.updates;
    facts.taken_back = idle.newest_update - idle.updates;
    facts.sleep = ++sleeps_;
    facts.version = idle.history.version();
    facts.last_use_time = idle.last_use_time;
  }
  SleepingSessions::Block block({.id = id, .request_id = request_id, .facts = facts});
  // Whoever gives it something to write from here on leaves a trace.
  if (!journal->IsQuiet()) return 0;
  Lock lock(mutex_);
  const auto found = FindIdleLocked(id);
  if (found == sessions_.end()) return 0;
  const Session& idle = *found->second;
  if (idle.nonce != facts.nonce || idle.updates != facts.updates ||
      idle.last_use_time != facts.last_use_time) {
    return 0;
  }
  if (idle.expiry) block.SetExpiry(*idle.expiry);
  const int64_t bytes = block.bytes();
  asleep_.Add(std::move(block));
  session = std::move(found->second);
  sessions_.erase(found);
  StopExpiryLocked(*session);
  if (session->resident) ++stored_[session->model];
  if (!request_id.empty()) requests_.erase(session->request_id);
  const int64_t prompt = session->newest_call ? PromptBytes(*session->newest_call) : 0;
  return session->charge.bytes() + prompt - bytes;
}

void SessionDirectory::Complete(Session& session, const SleepingFacts& kept) {
  session.nonce = kept.nonce;
  session.updates = kept.updates;
  session.newest_update = kept.updates + kept.taken_back;
  session.history.SetVersion(kept.version);
  session.last_use_time = kept.last_use_time;
  if (kept.expiry != Time::max()) session.expiry = kept.expiry;
}

SessionDirectory::Woken SessionDirectory::PutAwake(
    const std::shared_ptr<Session>& session, uint64_t sleep, bool in_any_case) {
  Sessions by_id = {{session->id, session}};
  std::map<std::string_view, const std::string*> by_request = {
      {session->request_id, &session->id}};
  ExpirySet one = {{{}, session.get()}};
  session->expiry_node = one.extract(one.begin());
  const int64_t bytes = WholeBytes(*session);
  if (in_any_case) {
    session->charge.Set(bytes);
  } else if (!session->charge.TrySet(bytes)) {
    return Woken::kNoRoom;
  }
  // Destroyed after the lock.
  std::optional<SleepingSessions::Block> slept;
  Lock lock(mutex_);
  const auto found = asleep_.Find(session->id);
  if (!found || found->facts.sleep != sleep) return Woken::kGone;
  Complete(*session, found->facts);
  if (session->expiry) {
    session->expiry_node.value().first = *session->expiry;
    expiries_.insert(std::move(session->expiry_node));
  }
  if (!session->request_id.empty()) requests_.merge(by_request);
  if (session->resident) --stored_[session->model];
  sessions_.merge(by_id);
  slept = asleep_.Take(session->id);
  return Woken::kYes;
}

bool SessionDirectory::RemoveAsleep(const std::string& id) {
  // Destroyed after the lock.
  std::optional<SleepingSessions::Block> slept;
  std::set<std::string, std::less<>> one = {id};
  Lock lock(mutex_);
  slept = asleep_.Take(id);
  if (!slept) return false;
  given_up_.merge(one);
  const size_t model = slept->Read().facts.model;
  --counts_[model];
  --stored_[model];
  return true;
}

void SessionDirectory::FreeId(const std::string& id) {
  // Destroyed after the lock.
  decltype(given_up_)::node_type freed;
  Lock lock(mutex_);
  freed = given_up_.extract(id);
}

absl::StatusOr<std::shared_ptr<Session>> SessionDirectory::Find(const std::string& id) {
  return FindOrWake(id, /*expired_too=*/false);
}

absl::StatusOr<std::shared_ptr<Session>> SessionDirectory::FindOrWake(
    const std::string& id, bool expired_too) {
  const Time now = clock_.Now();
  while (true) {
    uint64_t sleep = 0;
    bool sleeps = false;
    bool expired = false;
    {
      Lock lock(mutex_);
      const auto awake = sessions_.find(id);
      if (awake != sessions_.end() &&
          (expired_too || !ExpiredLocked(*awake->second, now))) {
        return awake->second;
      }
      const auto asleep = asleep_.Find(id);
      sleeps = asleep && (expired_too || asleep->facts.expiry > now);
      if (sleeps) sleep = asleep->facts.sleep;
      expired = asleep || awake != sessions_.end() || expired_.Contains(id);
    }
    if (!sleeps && expired) return engine_errors::SessionExpired(id);
    if (!sleeps) return engine_errors::NotFound(id);
    auto made = waker_(id);
    if (made.ok()) {
      // One that has expired is removed next.
      const Woken woken = PutAwake(*made, sleep, expired_too);
      if (woken == Woken::kYes) return made;
      if (woken == Woken::kNoRoom) return engine_errors::MemoryLimit();
      continue;
    }
    Lock lock(mutex_);
    // Else another one has woken it up, or removed it.
    const auto asleep = asleep_.Find(id);
    if (asleep && asleep->facts.sleep == sleep) return made.status();
  }
}

absl::Status SessionDirectory::WakeExpired(const std::string& id) {
  {
    Lock lock(mutex_);
    const auto asleep = asleep_.Find(id);
    if (!asleep || asleep->facts.expiry > clock_.Now()) return absl::OkStatus();
  }
  const absl::Status woken = FindOrWake(id, /*expired_too=*/true).status();
  return absl::IsNotFound(woken) ? absl::OkStatus() : woken;
}

std::vector<std::string> SessionDirectory::FindExpiredAsleep() {
  const Time now = clock_.Now();
  std::vector<std::string> expired;
  expired.reserve(kExpiredAtOnce);
  const auto look = [&] {
    Lock lock(mutex_);
    return asleep_.LookForExpired(now, expired);
  };
  while (look() && expired.size() < expired.capacity()) {
  }
  return expired;
}

absl::StatusOr<std::vector<std::shared_ptr<Session>>> SessionDirectory::From(
    const std::string& first, size_t count, std::string& next) const {
  struct Row {
    std::shared_ptr<Session> session;  // null: it sleeps
    std::string id;                    // of one that sleeps
    SleepingFacts kept;
  };
  const Time now = clock_.Now();
  std::vector<Row> rows;
  rows.reserve(count);
  next = first;
  for (bool more = true; more && rows.size() < count;) {
    const size_t end = std::min(count, rows.size() + kCopiedAtOnce);
    std::string last;
    {
      Lock lock(mutex_);
      auto awake = sessions_.lower_bound(next);
      const SleepingSessions::Blocks& sleeping = asleep_.blocks();
      auto asleep = sleeping.lower_bound(std::string_view(next));
      for (size_t n = 0; n < 2 * kCopiedAtOnce && rows.size() < end &&
                         (awake != sessions_.end() || asleep != sleeping.end());
           ++n) {
        if (asleep == sleeping.end() ||
            (awake != sessions_.end() && awake->first < asleep->id())) {
          const std::shared_ptr<Session>& session = (awake++)->second;
          last = session->id;
          if (ExpiredLocked(*session, now)) continue;
          rows.push_back({.session = session, .id = {}, .kept = {}});
          continue;
        }
        const SleepingSession found = (asleep++)->Read();
        last = found.id;
        if (found.facts.expiry <= now) continue;
        rows.push_back({.session = nullptr, .id = last, .kept = found.facts});
      }
      more = awake != sessions_.end() || asleep != sleeping.end();
    }
    next = more ? last + '\0' : std::string();
  }
  std::vector<std::shared_ptr<Session>> page;
  page.reserve(rows.size());
  for (Row& row : rows) {
    if (row.session == nullptr) {
      auto copy = waker_(row.id);
      if (engine_errors::IsNoAnswer(copy.status())) return copy.status();
      if (!copy.ok()) continue;
      Complete(**copy, row.kept);
      row.session = *std::move(copy);
    }
    page.push_back(std::move(row.session));
  }
  return page;
}

int64_t SessionDirectory::asleep_bytes() const {
  Lock lock(mutex_);
  return asleep_.bytes();
}

int64_t SessionDirectory::asleep() const {
  Lock lock(mutex_);
  return asleep_.size();
}

}  // namespace mnemon
