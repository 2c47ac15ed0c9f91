// SPDX-License-Identifier: MIT
#include "server/sessions/session_sleep.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "server/requests/engine_errors.h"
#include "server/sessions/session_journal.h"

namespace mnemon {

using Lock = std::lock_guard<std::mutex>;

namespace {

// An awake session that could sleep, as far as the table knows; null: there is none.
Session* FindSleepy(const SessionTable& table, const std::string& id) {
  const auto found = table.awake().find(id);
  if (found == table.awake().end() || found->second.use_count() > 1) return nullptr;
  Session& session = *found->second;
  const bool idle =
      session.journal != nullptr && !session.entry.held &&
      session.history.size() == 0 && session.history.staged() == 0 &&
      std::all_of(session.entry.checkpoints.begin(), session.entry.checkpoints.end(),
                  [](const SessionCheckpoint& checkpoint) {
                    return !checkpoint.at->resident && checkpoint.at.use_count() == 1;
                  });
  return idle ? &session : nullptr;
}

// Gives a session that was read from the store what only memory knows of it. Its expiry
// is set, but it is not in the set of those that expire.
void Complete(Session& session, const SleepingFacts& facts) {
  session.nonce = facts.nonce;
  session.entry.updates = facts.updates;
  session.entry.newest_update = facts.updates + facts.taken_back;
  session.history.SetVersion(facts.version);
  session.entry.last_use_time = facts.last_use_time;
  if (facts.expiry != SleepingSessions::Time::max()) {
    session.entry.expiry = facts.expiry;
  }
}

}  // namespace

int64_t SessionSleep::Sleep(const std::string& id) {
  std::shared_ptr<Session> session;  // destroyed after unlocking, as is what follows
  std::shared_ptr<SessionJournal> journal;
  std::string request_id;
  SleepingFacts facts;
  {
    Lock lock(table_.mutex());
    const Session* const idle = FindSleepy(table_, id);
    if (idle == nullptr) return 0;
    journal = idle->journal;
    request_id = idle->request_id;
    facts.model = static_cast<uint32_t>(idle->model);
    facts.nonce = idle->nonce;
    facts.updates = idle->entry.updates;
    facts.taken_back = idle->entry.newest_update - idle->entry.updates;
    facts.sleep = ++sleeps_;
    facts.version = idle->history.version();
    facts.last_use_time = idle->entry.last_use_time;
  }
  SleepingSessions::Block block({.id = id, .request_id = request_id, .facts = facts});
  // Whoever gives it something to write from here on changes one of the facts.
  if (!journal->IsQuiet()) return 0;
  Lock lock(table_.mutex());
  const Session* const idle = FindSleepy(table_, id);
  if (idle == nullptr || idle->nonce != facts.nonce ||
      idle->entry.updates != facts.updates ||
      idle->entry.last_use_time != facts.last_use_time) {
    return 0;
  }
  if (idle->entry.expiry) block.SetExpiry(*idle->entry.expiry);
  const int64_t bytes = block.bytes();
  session = table_.PutToSleep(id, std::move(block));
  const CallRecord* const newest = session->entry.newest_call.get();
  const int64_t prompt = newest == nullptr ? 0 : PromptBytes(*newest);
  return session->charge.bytes() + prompt - bytes;
}

absl::StatusOr<std::shared_ptr<Session>> SessionSleep::Find(const std::string& id,
                                                            bool expired_too) {
  const SessionTable& table = table_;
  const SessionExpiries::Time now = clock_.Now();
  while (true) {
    uint64_t sleep = 0;
    bool sleeps = false;
    bool expired = false;
    {
      Lock lock(table.mutex());
      auto awake = table.FindAwake(id);
      if (awake && (expired_too || !SessionExpiries::IsExpired(*awake, now))) {
        return awake;
      }
      const auto asleep = table.asleep().Find(id);
      sleeps = asleep && (expired_too || asleep->facts.expiry > now);
      if (sleeps) sleep = asleep->facts.sleep;
      expired = asleep || awake || table.expired().Contains(id);
    }
    if (!sleeps && expired) return engine_errors::SessionExpired(id);
    if (!sleeps) return engine_errors::NotFound(id);
    auto made = waker_(id);
    if (made.ok()) {
      // One that has expired is removed next.
      const Woken woken = PutAwake(*made, sleep, /*in_any_case=*/expired_too);
      if (woken == Woken::kYes) return made;
      if (woken == Woken::kNoRoom) return engine_errors::MemoryLimit();
      continue;
    }
    Lock lock(table.mutex());
    // Else another thread has woken or removed it meanwhile.
    const auto asleep = table.asleep().Find(id);
    if (asleep && asleep->facts.sleep == sleep) return made.status();
  }
}

SessionSleep::Woken SessionSleep::PutAwake(const std::shared_ptr<Session>& session,
                                           uint64_t sleep, bool in_any_case) {
  SessionTable::Place place(session);
  const int64_t bytes = WholeBytes(*session);
  if (in_any_case) {
    session->charge.Set(bytes);
  } else if (!session->charge.TrySet(bytes)) {
    return Woken::kNoRoom;
  }
  std::optional<SleepingSessions::Block> slept;  // destroyed after unlocking
  Lock lock(table_.mutex());
  const auto found = table_.asleep().Find(session->id);
  if (!found || found->facts.sleep != sleep) return Woken::kGone;
  Complete(*session, found->facts);
  slept = table_.Wake(place);
  return Woken::kYes;
}

absl::StatusOr<std::shared_ptr<Session>> SessionSleep::Copy(
    const std::string& id, const SleepingFacts& facts) const {
  auto copy = waker_(id);
  if (copy.ok()) Complete(**copy, facts);
  return copy;
}

absl::Status SessionSleep::WakeExpired(const std::string& id) {
  {
    Lock lock(table_.mutex());
    const auto asleep = table_.asleep().Find(id);
    if (!asleep || asleep->facts.expiry > clock_.Now()) return absl::OkStatus();
  }
  const absl::Status woken = Find(id, /*expired_too=*/true).status();
  return absl::IsNotFound(woken) ? absl::OkStatus() : woken;
}

std::vector<std::string> SessionSleep::FindExpired() {
  const SessionExpiries::Time now = clock_.Now();
  std::vector<std::string> expired;
  expired.reserve(kFoundAtOnce);
  const auto look = [&] {
    Lock lock(table_.mutex());
    return table_.asleep().LookForExpired(now, expired);
  };
  while (look() && expired.size() < expired.capacity()) {
  }
  return expired;
}

bool SessionSleep::Remove(const std::string& id) {
  std::optional<SleepingSessions::Block> slept;  // destroyed after unlocking
  SessionTable::Ids one = {id};
  Lock lock(table_.mutex());
  slept = table_.RemoveAsleep(one);
  return slept.has_value();
}

void SessionSleep::FreeId(const std::string& id) {
  SessionTable::Ids::node_type freed;  // destroyed after unlocking
  Lock lock(table_.mutex());
  freed = table_.FreeId(id);
}

int64_t SessionSleep::size() const {
  Lock lock(table_.mutex());
  return table_.asleep().size();
}

int64_t SessionSleep::bytes() const {
  Lock lock(table_.mutex());
  return table_.asleep().bytes();
}

}  // namespace mnemon
