// SPDX-License-Identifier: MIT
#include "server/engine/session_directory.h"

#include <algorithm>
#include <iterator>
#include <new>

#include "base/heap_bytes.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/engine/engine_errors.h"

namespace mnemon {

using engine_errors::CheckpointExists;
using engine_errors::CheckpointLimit;
using engine_errors::CheckpointNotFound;
using engine_errors::EtagMismatch;
using engine_errors::NotFound;
using engine_errors::RequestIdReused;
using engine_errors::RequestRepeated;
using engine_errors::SessionExists;
using engine_errors::SessionExpired;
using engine_errors::SessionLimit;
using engine_errors::SessionPaused;
using Lock = std::lock_guard<std::mutex>;
namespace {

// A remembered id with its node.
int64_t RememberedBytes(const std::string& id) {
  return HeapBytes(2 * sizeof(void*) + sizeof(id)) + TextHeapBytes(id);
}

int64_t SamplingBytes(const Session& session) {
  if (session.sampling == nullptr) return 0;
  const std::vector<LogitBias>& bias = session.sampling->values.logit_bias;
  return SharedHeapBytes(sizeof(SessionSampling)) +
         (bias.empty()
              ? 0
              : HeapBytes(static_cast<int64_t>(bias.capacity() * sizeof(LogitBias))));
}

// What one that is made takes, beside history and state.
int64_t BytesOf(const Session& session) {
  int64_t bytes = Session::kBytes + SamplingBytes(session);
  for (const std::string* text :
       {&session.id, &session.parent, &session.request_id, &session.request_text}) {
    bytes += TextHeapBytes(*text);
  }
  if (session.journal) bytes += SharedHeapBytes(sizeof(SessionJournal));
  if (!session.request_id.empty()) {
    bytes += HeapBytes(5 * sizeof(void*) + sizeof(std::string_view));
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Session>> SessionDirectory::Insert(
    std::shared_ptr<Session> session) {
  // Nodes are made before the lock, statuses after it: what is left needs no memory.
  Sessions by_id = {{session->id, session}};
  std::map<std::string_view, Session*> by_request = {
      {session->request_id, session.get()}};
  ExpirySet one = {{{}, session.get()}};
  session->expiry_node = one.extract(one.begin());
  session->create_time = session->last_use_time = clock_.WallNow();
  std::shared_ptr<Session> other;
  bool id_taken = false;
  session->charge.Set(BytesOf(*session));
  {
    Lock lock(mutex_);
    const auto made = requests_.find(session->request_id);
    if (made != requests_.end()) other = sessions_.at(made->second->id);
    id_taken = sessions_.contains(session->id);
    int32_t& count = counts_[session->model];
    if (other == nullptr && !id_taken && count < limit_) {
      sessions_.merge(by_id);
      if (!session->request_id.empty()) requests_.merge(by_request);
      ++count;
      expired_.Forget(session->id);
      StartExpiryLocked(*session);
      return session;
    }
  }
  if (other == nullptr) {
    if (id_taken) return SessionExists(session->id);
    return SessionLimit(limit_, UntilExpiry());
  }
  const bool same = (session->drawn_id || session->id == other->id) &&
                    session->request_text == other->request_text;
  if (!same) return RequestIdReused(other->id);
  return other;
}

bool SessionDirectory::Restore(std::shared_ptr<Session> session,
                               std::optional<Time> expiry) {
  Sessions by_id = {{session->id, session}};
  std::map<std::string_view, Session*> by_request = {
      {session->request_id, session.get()}};
  ExpirySet one = {{{}, session.get()}};
  session->expiry_node = one.extract(one.begin());
  int64_t bytes = BytesOf(*session);
  for (const std::string& id : session->request_ids) bytes += RememberedBytes(id);
  session->charge.Set(bytes);
  Lock lock(mutex_);
  if (sessions_.contains(session->id)) return false;
  sessions_.merge(by_id);
  if (!session->request_id.empty()) requests_.merge(by_request);
  ++counts_[session->model];
  if (!session->resident) ++stored_[session->model];
  if (expiry) {
    session->expiry = expiry;
    session->expiry_node.value().first = *expiry;
    expiries_.insert(std::move(session->expiry_node));
  }
  return true;
}

void SessionDirectory::SetResident(Session& session) {
  Lock lock(mutex_);
  if (!session.resident && !session.deleted) --stored_[session.model];
  session.resident = true;
}

bool SessionDirectory::SetStored(Session& session) {
  Lock lock(mutex_);
  if (session.held || session.deleted || !session.resident) return false;
  session.stored_tokens = session.history.size();
  ++stored_[session.model];
  session.resident = false;
  return true;
}

void SessionDirectory::Describe(const Session& session, StoredSession& stored) const {
  if (const auto newest = NewestCall(session)) {
    stored.newest_call = FormatCallRecord(*newest);
  }
  Lock lock(mutex_);
  stored.last_use_time = session.last_use_time;
  stored.ttl = session.ttl;
  if (session.expires_at) {
    stored.expire_time =
        clock_.WallNow() +
        std::chrono::duration_cast<std::chrono::system_clock::duration>(
            *session.expires_at - clock_.Now());
  }
  if (session.sampling) stored.sampling = *session.sampling;
  stored.paused = session.paused;
  stored.scored_from = session.scored_from;
  stored.request_ids.assign(session.request_ids.begin(), session.request_ids.end());
}

absl::StatusOr<std::shared_ptr<Session>> SessionDirectory::Find(
    const std::string& id) const {
  bool expired = false;
  {
    Lock lock(mutex_);
    const auto found = sessions_.find(id);
    if (found != sessions_.end()) return found->second;
    expired = expired_.Contains(id);
  }
  return expired ? SessionExpired(id) : NotFound(id);
}

absl::StatusOr<std::shared_ptr<Session>> SessionDirectory::Remove(
    const std::string& id, const std::string& etag) {
  MNEMON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, Find(id));
  std::string present;
  bool removed = false;
  {
    Lock lock(mutex_);
    if (!etag.empty()) present = EtagLocked(*session);
    removed = session->deleted;
    if (!removed && present == etag) {
      EraseLocked(*session);
      return session;
    }
  }
  return removed ? NotFound(id) : EtagMismatch(id);
}

std::string SessionDirectory::EtagOf(const Session& session) const {
  Lock lock(mutex_);
  return EtagLocked(session);
}

std::string SessionDirectory::EtagLocked(const Session& session) const {
  return StrCat(session.nonce, "-", session.updates, "-", session.history.version());
}

absl::Status SessionDirectory::Update(Session& session, const std::string& etag,
                                      const Settings& settings) {
  std::string present;
  bool removed = false;
  std::shared_ptr<const SessionSampling> sampling;
  if (settings.sampling && *settings.sampling) {
    sampling = std::make_shared<const SessionSampling>(**settings.sampling);
  }
  {
    Lock lock(mutex_);
    if (!etag.empty()) present = EtagLocked(session);
    removed = session.deleted;
    if (!removed && present == etag) {
      if (settings.sampling) {
        const int64_t before = SamplingBytes(session);
        session.sampling.swap(sampling);
        session.charge.Set(session.charge.bytes() + SamplingBytes(session) - before);
      }
      if (settings.paused) session.paused = *settings.paused;
      if (settings.expiration) {
        StopExpiryLocked(session);
        session.ttl = settings.expiration->ttl;
        session.expires_at = settings.expiration->expires_at;
        StartExpiryLocked(session);
      }
      ++session.updates;
      return absl::OkStatus();
    }
  }
  return removed ? NotFound(session.id) : EtagMismatch(session.id);
}

absl::StatusOr<SessionCheckpoint> SessionDirectory::AddCheckpoint(
    Session& session, SessionCheckpoint checkpoint, bool drawn_id) {
  checkpoint.create_time = clock_.WallNow();
  enum { kNotFound, kReused, kTaken, kFull } refused = kNotFound;
  {
    Lock lock(mutex_);
    const auto same = [&](const SessionCheckpoint& other) {
      return !checkpoint.request_id.empty() &&
             other.request_id == checkpoint.request_id;
    };
    auto& all = session.checkpoints;
    const auto made = std::find_if(all.begin(), all.end(), same);
    if (made != all.end() && (drawn_id || made->id == checkpoint.id)) return *made;
    const bool taken = std::any_of(all.begin(), all.end(), [&](const auto& other) {
      return other.id == checkpoint.id;
    });
    if (!session.deleted && made == all.end() && !taken &&
        all.size() < Session::kCheckpoints) {
      all.push_back(checkpoint);
      ++session.updates;
      return checkpoint;
    }
    if (!session.deleted)
      refused = made != all.end() ? kReused : taken ? kTaken : kFull;
  }
  switch (refused) {
    case kReused:
      return RequestIdReused(session.id);
    case kTaken:
      return CheckpointExists(session.id, checkpoint.id);
    case kFull:
      return CheckpointLimit(session.id, Session::kCheckpoints);
    case kNotFound:
      break;
  }
  return NotFound(session.id);
}

absl::StatusOr<SessionCheckpoint> SessionDirectory::FindCheckpoint(
    const Session& session, const std::string& id) const {
  {
    Lock lock(mutex_);
    for (const SessionCheckpoint& checkpoint : session.checkpoints) {
      if (checkpoint.id == id) return checkpoint;
    }
  }
  return CheckpointNotFound(session.id, id);
}

std::vector<SessionCheckpoint> SessionDirectory::CheckpointsOf(
    const Session& session) const {
  Lock lock(mutex_);
  return session.checkpoints;
}

bool SessionDirectory::Contains(const std::string& id) const {
  Lock lock(mutex_);
  return sessions_.contains(id);
}

std::vector<std::shared_ptr<Session>> SessionDirectory::RemoveExpired() {
  std::vector<std::shared_ptr<Session>> removed;
  const Time now = clock_.Now();
  const std::optional<Time> next = NextExpiry();
  if (!next || *next > now) return removed;
  removed.reserve(kExpiredAtOnce);
  Lock lock(mutex_);
  while (!expiries_.empty() && expiries_.begin()->first <= now &&
         removed.size() < kExpiredAtOnce) {
    const std::string& id = expiries_.begin()->second->id;
    removed.push_back(sessions_.at(id));
    EraseLocked(*removed.back());
    expired_.Remember(id);
  }
  return removed;
}

std::optional<SessionDirectory::Time> SessionDirectory::NextExpiry() const {
  Lock lock(mutex_);
  if (expiries_.empty()) return std::nullopt;
  return expiries_.begin()->first;
}

SessionDirectory::Time::duration SessionDirectory::UntilExpiry() const {
  const std::optional<Time> next = NextExpiry();
  return next ? std::max(*next - clock_.Now(), Time::duration()) : Time::duration();
}

std::vector<std::shared_ptr<Session>> SessionDirectory::From(const std::string& first,
                                                             size_t count) const {
  std::vector<std::shared_ptr<Session>> page;
  page.reserve(count);
  for (bool more = true; more && page.size() < count;) {
    const size_t end = std::min(count, page.size() + kCopiedAtOnce);
    Lock lock(mutex_);
    auto next = page.empty() ? sessions_.lower_bound(first)
                             : sessions_.upper_bound(page.back()->id);
    for (; next != sessions_.end() && page.size() < end; ++next) {
      page.push_back(next->second);
    }
    more = next != sessions_.end();
  }
  return page;
}

absl::StatusOr<bool> SessionDirectory::Hold(Session& session,
                                            const std::string& request_id,
                                            bool resumes) {
  std::unique_lock lock(mutex_);
  if (session.deleted) {
    lock.unlock();
    return NotFound(session.id);
  }
  const auto& ids = session.request_ids;
  const bool remembered =
      !request_id.empty() && std::find(ids.begin(), ids.end(), request_id) != ids.end();
  if (remembered && !resumes) {
    lock.unlock();
    return RequestRepeated(session.id);
  }
  if (session.paused) {
    lock.unlock();
    return SessionPaused(session.id);
  }
  if (session.held) return false;
  if (!request_id.empty() && !remembered) {
    session.holder_request_id.push_back(request_id);
  }
  session.held = true;
  session.last_use_time = clock_.WallNow();
  if (!session.expires_at) StopExpiryLocked(session);
  return true;
}

bool SessionDirectory::Release(Session& session, bool taken,
                               std::optional<int64_t> scored_from) {
  Lock lock(mutex_);
  session.held = false;
  if (taken) session.scored_from.reset();
  if (taken && !session.holder_request_id.empty()) {
    session.scored_from = scored_from;
    const int64_t bytes = RememberedBytes(session.holder_request_id.front());
    session.charge.Set(session.charge.bytes() + bytes);
    session.request_ids.splice(session.request_ids.end(), session.holder_request_id);
    if (session.request_ids.size() > Session::kRequestIds) {
      session.charge.Set(session.charge.bytes() -
                         RememberedBytes(session.request_ids.front()));
      session.request_ids.pop_front();
    }
  }
  session.holder_request_id.clear();
  session.running.store(false, std::memory_order_relaxed);
  if (session.deleted) return false;
  session.last_use_time = clock_.WallNow();
  StartExpiryLocked(session);
  return true;
}

void SessionDirectory::SetNewestCall(Session& session,
                                     std::shared_ptr<const CallRecord> record) {
  {
    Lock lock(mutex_);
    session.newest_call.swap(record);
  }
  if (session.journal) session.journal->TouchRecord();
}

std::shared_ptr<const CallRecord> SessionDirectory::NewestCall(
    const Session& session) const {
  Lock lock(mutex_);
  return session.newest_call;
}

SessionDirectory::IdUse SessionDirectory::UseOf(const Session& session,
                                                const std::string& request_id) const {
  Lock lock(mutex_);
  const auto& ids = session.request_ids;
  if (std::find(ids.begin(), ids.end(), request_id) != ids.end()) {
    return IdUse::kRemembered;
  }
  const auto& holder = session.holder_request_id;
  return !holder.empty() && holder.front() == request_id ? IdUse::kHolds
                                                         : IdUse::kUnknown;
}

std::optional<int64_t> SessionDirectory::ScoredFrom(
    const Session& session, const std::string& request_id) const {
  Lock lock(mutex_);
  const auto& ids = session.request_ids;
  if (ids.empty() || ids.back() != request_id) return std::nullopt;
  return session.scored_from;
}

void SessionDirectory::ForgetScored(Session& session) {
  Lock lock(mutex_);
  session.scored_from.reset();
}

SessionDirectory::Facts SessionDirectory::FactsOf(const Session& session) const {
  Lock lock(mutex_);
  const CallRecord* const call = session.newest_call.get();
  const int64_t tokens =
      session.resident ? session.history.size() : session.stored_tokens;
  return {
      .held = session.held,
      .detached = !session.held && call != nullptr && call->open(tokens),
      .tokens = tokens,
      .last_use_time = session.last_use_time,
      .expiry = session.expiry,
      .ttl = session.ttl,
      .sampling = session.sampling ? std::optional(*session.sampling) : std::nullopt,
      .paused = session.paused};
}

int64_t SessionDirectory::size() const {
  Lock lock(mutex_);
  return static_cast<int64_t>(sessions_.size());
}

int64_t SessionDirectory::size(size_t model) const {
  Lock lock(mutex_);
  return counts_[model];
}

int64_t SessionDirectory::stored(size_t model) const {
  Lock lock(mutex_);
  return stored_[model];
}

void SessionDirectory::EraseLocked(Session& session) {
  StopExpiryLocked(session);
  session.deleted = true;
  --counts_[session.model];
  if (!session.resident) --stored_[session.model];
  if (!session.request_id.empty()) requests_.erase(session.request_id);
  sessions_.erase(session.id);
}

void SessionDirectory::ExpiredIds::Remember(const std::string& id) try {
  Forget(id);
  order_.push_back(id);
  try {
    places_.emplace(order_.back(), std::prev(order_.end()));
  } catch (const std::bad_alloc&) {
    order_.pop_back();
    throw;
  }
  if (order_.size() > kRemembered) Forget(order_.front());
} catch (const std::bad_alloc&) {
  // That id is answered as one that never was.
}

void SessionDirectory::ExpiredIds::Forget(const std::string& id) {
  const auto found = places_.find(id);
  if (found == places_.end()) return;
  const auto place = found->second;
  places_.erase(found);  // its key is the text of the place
  order_.erase(place);
}

void SessionDirectory::StartExpiryLocked(Session& session) {
  if (session.expiry) return;
  if (session.expires_at) {
    session.expiry = session.expires_at;
  } else if (session.ttl && !session.held) {
    session.expiry = clock_.Now() + *session.ttl;
  } else {
    return;
  }
  session.expiry_node.value().first = *session.expiry;
  expiries_.insert(std::move(session.expiry_node));
}

void SessionDirectory::StopExpiryLocked(Session& session) {
  if (!session.expiry) return;
  session.expiry_node = expiries_.extract({*session.expiry, &session});
  session.expiry.reset();
}

}  // namespace mnemon
