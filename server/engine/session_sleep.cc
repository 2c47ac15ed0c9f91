// SPDX-License-Identifier: MIT
// Sessions that sleep: of which the store has all, and the directory the name.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/heap_bytes.h"
#include "base/out_of_memory.h"
#include "server/engine/engine_errors.h"
#include "server/engine/session_directory.h"

namespace mnemon {

using Lock = std::lock_guard<std::mutex>;

int64_t SessionDirectory::BytesOf(const Sleepers::value_type& sleeper) {
  const auto& [id, kept] = sleeper;
  int64_t bytes = HeapBytes(4 * sizeof(void*) + sizeof(sleeper)) + TextHeapBytes(id);
  if (kept.request_id) {
    bytes += HeapBytes(sizeof(std::string)) + TextHeapBytes(*kept.request_id) +
             HeapBytes(5 * sizeof(void*) + sizeof(std::string_view));
  }
  return bytes;
}

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
  // Nodes are made before the lock, what goes is destroyed after it.
  Sleepers one;
  const auto node = one.try_emplace(id).first;
  Sleeper& kept = node->second;
  std::shared_ptr<Session> session;
  std::shared_ptr<SessionJournal> journal;
  std::string request_id;
  {
    Lock lock(mutex_);
    const auto found = FindIdleLocked(id);
    if (found == sessions_.end()) return 0;
    const Session& idle = *found->second;
    journal = idle.journal;
    request_id = idle.request_id;
    kept.nonce = idle.nonce;
    kept.updates = idle.updates;
    kept.version = idle.history.version();
    kept.last_use_time = idle.last_use_time;
    kept.model = static_cast<uint32_t>(idle.model);
  }
  if (!request_id.empty()) {
    kept.request_id = std::make_unique<const std::string>(std::move(request_id));
  }
  // Whoever gives it something to write from here on leaves a trace.
  if (!journal->IsQuiet()) return 0;
  Lock lock(mutex_);
  const auto found = FindIdleLocked(id);
  if (found == sessions_.end()) return 0;
  const Session& idle = *found->second;
  if (idle.nonce != kept.nonce || idle.updates != kept.updates ||
      idle.last_use_time != kept.last_use_time) {
    return 0;
  }
  session = std::move(found->second);
  sessions_.erase(found);
  kept.expiry = session->expiry.value_or(Time::max());
  asleep_due_ = std::min(asleep_due_, kept.expiry);
  StopExpiryLocked(*session);
  if (session->resident) ++stored_[session->model];
  if (kept.request_id) {
    auto made = requests_.extract(session->request_id);
    made.key() = *kept.request_id;
    made.mapped() = &node->first;
    requests_.insert(std::move(made));
  }
  const int64_t bytes = BytesOf(*node);
  asleep_charge_.Set(asleep_charge_.bytes() + bytes);
  asleep_.merge(one);
  return session->charge.bytes() - bytes;
}

void SessionDirectory::Complete(Session& session, const Sleeper& kept) {
  session.nonce = kept.nonce;
  session.updates = kept.updates;
  session.history.SetVersion(kept.version);
  session.last_use_time = kept.last_use_time;
  if (kept.expiry != Time::max()) session.expiry = kept.expiry;
}

bool SessionDirectory::PutAwake(const std::shared_ptr<Session>& session,
                                uint64_t nonce) {
  Sessions by_id = {{session->id, session}};
  ExpirySet one = {{{}, session.get()}};
  session->expiry_node = one.extract(one.begin());
  session->charge.Set(WholeBytes(*session));
  // Destroyed after the lock.
  Sleepers::node_type slept;
  Lock lock(mutex_);
  const auto found = asleep_.find(session->id);
  if (found == asleep_.end() || found->second.nonce != nonce) return false;
  const Sleeper& kept = found->second;
  Complete(*session, kept);
  if (session->expiry) {
    session->expiry_node.value().first = *session->expiry;
    expiries_.insert(std::move(session->expiry_node));
  }
  if (kept.request_id) {
    auto made = requests_.extract(*kept.request_id);
    made.key() = session->request_id;
    made.mapped() = &session->id;
    requests_.insert(std::move(made));
  }
  if (session->resident) --stored_[session->model];
  asleep_charge_.Set(asleep_charge_.bytes() - BytesOf(*found));
  sessions_.merge(by_id);
  slept = asleep_.extract(found);
  return true;
}

absl::StatusOr<std::shared_ptr<Session>> SessionDirectory::Find(const std::string& id) {
  return FindOrWake(id, /*expired_too=*/false);
}

absl::StatusOr<std::shared_ptr<Session>> SessionDirectory::FindOrWake(
    const std::string& id, bool expired_too) {
  const Time now = clock_.Now();
  while (true) {
    uint64_t nonce = 0;
    bool sleeps = false;
    bool expired = false;
    {
      Lock lock(mutex_);
      const auto awake = sessions_.find(id);
      if (awake != sessions_.end()) return awake->second;
      const auto asleep = asleep_.find(id);
      sleeps = asleep != asleep_.end();
      if (sleeps) nonce = asleep->second.nonce;
      expired = expired_.Contains(id);
      if (sleeps && !expired_too && asleep->second.expiry <= now) {
        sleeps = false;
        expired = true;
      }
    }
    if (!sleeps && expired) return engine_errors::SessionExpired(id);
    if (!sleeps) return engine_errors::NotFound(id);
    auto made = waker_(id);
    if (made.ok()) {
      if (PutAwake(*made, nonce)) return made;
      continue;
    }
    Lock lock(mutex_);
    // Else another one has woken it up, or removed it.
    const auto asleep = asleep_.find(id);
    if (asleep != asleep_.end() && asleep->second.nonce == nonce) return made.status();
  }
}

void SessionDirectory::WakeExpired() {
  const Time now = clock_.Now();
  std::vector<std::string> due;
  ExpiryLook look;
  {
    Lock lock(mutex_);
    if (now < asleep_due_) return;
    // Of those that fall asleep from here on.
    asleep_due_ = Time::max();
    std::swap(look, expiry_look_);
  }
  bool more = true;
  const absl::Status looked = CatchOutOfMemory({}, [&] {
    while (more && due.size() < kExpiredAtOnce) {
      Lock lock(mutex_);
      auto asleep = asleep_.lower_bound(look.from);
      for (size_t n = 0;
           n < kCopiedAtOnce && asleep != asleep_.end() && due.size() < kExpiredAtOnce;
           ++n, ++asleep) {
        const Time expiry = asleep->second.expiry;
        if (expiry <= now) {
          due.push_back(asleep->first);
        } else {
          look.next = std::min(look.next, expiry);
        }
      }
      more = asleep != asleep_.end();
      if (more) look.from = asleep->first;
    }
    return absl::OkStatus();
  });
  {
    Lock lock(mutex_);
    if (!looked.ok() || more) {
      // It goes on from there.
      asleep_due_ = now;
      if (looked.ok()) std::swap(look, expiry_look_);
    } else {
      asleep_due_ = std::min(asleep_due_, std::max(look.next, now + kExpiryLook));
    }
  }
  for (const std::string& id : due) {
    if (FindOrWake(id, /*expired_too=*/true).ok()) continue;
    // What the store does not give now it may give later.
    Lock lock(mutex_);
    const auto found = asleep_.find(id);
    if (found == asleep_.end() || found->second.expiry > now) continue;
    found->second.expiry = now + kWakeAgain;
    asleep_due_ = std::min(asleep_due_, found->second.expiry);
  }
}

std::vector<std::shared_ptr<Session>> SessionDirectory::From(const std::string& first,
                                                             size_t count,
                                                             std::string& next) const {
  struct Row {
    std::shared_ptr<Session> session;  // null: it sleeps
    std::string id;                    // of one that sleeps
    Sleeper kept;
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
      auto asleep = asleep_.lower_bound(next);
      for (size_t n = 0; n < 2 * kCopiedAtOnce && rows.size() < end &&
                         (awake != sessions_.end() || asleep != asleep_.end());
           ++n) {
        if (asleep == asleep_.end() ||
            (awake != sessions_.end() && awake->first < asleep->first)) {
          rows.push_back({.session = awake->second, .id = {}, .kept = {}});
          last = (awake++)->first;
        } else if (asleep->second.expiry <= now) {
          last = (asleep++)->first;
        } else {
          const Sleeper& kept = asleep->second;
          rows.push_back({.session = nullptr,
                          .id = asleep->first,
                          .kept = {.request_id = nullptr,
                                   .nonce = kept.nonce,
                                   .updates = kept.updates,
                                   .version = kept.version,
                                   .last_use_time = kept.last_use_time,
                                   .expiry = kept.expiry,
                                   .model = kept.model}});
          last = (asleep++)->first;
        }
      }
      more = awake != sessions_.end() || asleep != asleep_.end();
    }
    next = more ? last + '\0' : std::string();
  }
  std::vector<std::shared_ptr<Session>> page;
  page.reserve(rows.size());
  for (Row& row : rows) {
    if (row.session == nullptr) {
      auto copy = waker_(row.id);
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
  return asleep_charge_.bytes();
}

int64_t SessionDirectory::asleep() const {
  Lock lock(mutex_);
  return static_cast<int64_t>(asleep_.size());
}

}  // namespace mnemon
