// SPDX-License-Identifier: MIT
#include "server/engine/session_directory.h"

#include <algorithm>
#include <iterator>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/engine/engine_errors.h"
#include "server/engine/session_bytes.h"

namespace mnemon {

using engine_errors::CheckpointExists;
using engine_errors::CheckpointLimit;
using engine_errors::CheckpointNotFound;
using engine_errors::EtagMismatch;
using engine_errors::NotFound;
using engine_errors::RequestIdReused;
using engine_errors::RequestRepeated;
using engine_errors::SessionBusy;
using engine_errors::SessionExists;
using engine_errors::SessionExpired;
using engine_errors::SessionLimit;
using engine_errors::SessionPaused;
using engine_errors::StreamResumed;
using Lock = std::lock_guard<std::mutex>;

absl::StatusOr<std::shared_ptr<Session>> SessionDirectory::Insert(
    std::shared_ptr<Session> session) {
  // Nodes are made before the lock, statuses after it: what is left needs no memory.
  Sessions by_id = {{session->id, session}};
  std::map<std::string_view, const std::string*> by_request = {
      {session->request_id, &session->id}};
  ExpirySet one = {{{}, session.get()}};
  session->expiry_node = one.extract(one.begin());
  session->create_time = session->last_use_time = clock_.WallNow();
  session->charge.Set(FreshBytes(*session));
  std::shared_ptr<Session> other;
  std::string sleeping;  // that the same request has made
  bool id_taken = false;
  for (std::shared_ptr<Session> before;; before = nullptr) {
    {
      Lock lock(mutex_);
      const auto made = requests_.find(session->request_id);
      const auto asleep = asleep_.FindRequest(session->request_id);
      const auto leaving = leaving_.find(session->id);
      if (made != requests_.end()) other = sessions_.at(*made->second);
      if (asleep) sleeping = *asleep;
      if (leaving != leaving_.end()) before = leaving->second;
      id_taken = ContainsLocked(session->id);
      int32_t& count = counts_[session->model];
      const bool repeats = other != nullptr || !sleeping.empty();
      if (!repeats && !id_taken && before == nullptr && count < limit_) {
        sessions_.merge(by_id);
        if (!session->request_id.empty()) requests_.merge(by_request);
        ++count;
        expired_.Forget(session->id);
        StartExpiryLocked(*session);
        return session;
      }
    }
    if (before == nullptr) break;
    // What is written of the new one has to come behind that.
    if (!DeleteStored(*before)) return OutOfMemoryError();
  }
  if (!sleeping.empty()) return SessionBusy(sleeping, {});
  if (other == nullptr && id_taken) return SessionExists(session->id);
  if (other == nullptr) return SessionLimit(limit_, UntilExpiry());
  const bool same = (session->drawn_id || session->id == other->id) &&
                    session->request_text == other->request_text;
  if (!same) return RequestIdReused(other->id);
  return other;
}

std::string SessionDirectory::MadeBy(const std::string& request_id) const {
  Lock lock(mutex_);
  const auto made = requests_.find(request_id);
  if (made != requests_.end()) return *made->second;
  return std::string(asleep_.FindRequest(request_id).value_or(""));
}

std::optional<size_t> SessionDirectory::ModelOf(const std::string& id) const {
  Lock lock(mutex_);
  const auto awake = sessions_.find(id);
  if (awake != sessions_.end()) return awake->second->model;
  const auto asleep = asleep_.Find(id);
  if (!asleep) return std::nullopt;
  return asleep->facts.model;
}

bool SessionDirectory::Restore(std::shared_ptr<Session> session,
                               std::optional<Time> expiry) {
  Sessions by_id = {{session->id, session}};
  std::map<std::string_view, const std::string*> by_request = {
      {session->request_id, &session->id}};
  ExpirySet one = {{{}, session.get()}};
  session->expiry_node = one.extract(one.begin());
  session->charge.Set(WholeBytes(*session));
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
  if (!session.joined_from) return;
  stored.scored_from.reset();
  if (session.holder_request_id.empty()) return;
  stored.scored_from = session.joined_from;
  stored.request_ids.push_back(session.holder_request_id.front());
  if (stored.request_ids.size() > Session::kRequestIds) {
    stored.request_ids.erase(stored.request_ids.begin());
  }
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
    if (!removed && present == etag) RetireLocked(*session);
  }
  if (!removed && present == etag) return session;
  return removed ? NotFound(id) : EtagMismatch(id);
}

bool SessionDirectory::Remove(Session& session) {
  Lock lock(mutex_);
  if (session.deleted) return false;
  // Kept until it is erased.
  const std::shared_ptr<Session> kept = sessions_.at(session.id);
  EraseLocked(session);
  return true;
}

std::string SessionDirectory::EtagOf(const Session& session) const {
  Lock lock(mutex_);
  return EtagLocked(session);
}

std::string SessionDirectory::EtagLocked(const Session& session) const {
  return StrCat(session.nonce, "-", session.updates, "-", session.history.version());
}

absl::StatusOr<uint64_t> SessionDirectory::Update(Session& session,
                                                  const std::string& etag,
                                                  const Settings& settings) {
  std::string present;
  bool removed = false;
  std::shared_ptr<const SessionSampling> sampling;
  if (settings.sampling && *settings.sampling) {
    sampling = std::make_shared<const SessionSampling>(**settings.sampling);
  }
  std::list<Session::Undo> undo(1);
  if (session.journal) undo.front().durability = session.journal->durability();
  {
    Lock lock(mutex_);
    if (!etag.empty()) present = EtagLocked(session);
    removed = session.deleted;
    if (!removed && present == etag) {
      Session::Undo& before = undo.front();
      before.update = ++session.newest_update;
      before.updates = session.updates;
      before.ttl = session.ttl;
      before.expires_at = session.expires_at;
      before.expiry = session.expiry;
      before.sampling = session.sampling;
      before.paused = session.paused;
      session.undos.splice(session.undos.end(), undo);
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
      session.updates = session.newest_update;
      return session.newest_update;
    }
  }
  return removed ? NotFound(session.id) : EtagMismatch(session.id);
}

std::optional<Durability> SessionDirectory::Settle(Session& session, uint64_t update,
                                                   bool stored) {
  std::list<Session::Undo> settled;
  Lock lock(mutex_);
  const auto at =
      std::find_if(session.undos.begin(), session.undos.end(),
                   [&](const Session::Undo& undo) { return undo.update == update; });
  if (at == session.undos.end()) return std::nullopt;
  const auto next = std::next(at);
  settled.splice(settled.end(), session.undos, at);
  if (stored || session.deleted) return std::nullopt;
  Session::Undo& before = settled.front();
  if (next != session.undos.end()) {
    // What came behind it goes back as far.
    before.update = next->update;
    *next = std::move(before);
    return std::nullopt;
  }
  const int64_t bytes = SamplingBytes(session);
  session.sampling.swap(before.sampling);
  session.charge.Set(session.charge.bytes() + SamplingBytes(session) - bytes);
  session.paused = before.paused;
  session.updates = before.updates;
  StopExpiryLocked(session);
  session.ttl = before.ttl;
  session.expires_at = before.expires_at;
  // As it was, rather than from now on.
  if (before.expiry && !session.held) {
    session.expiry = before.expiry;
    session.expiry_node.value().first = *session.expiry;
    expiries_.insert(std::move(session.expiry_node));
  }
  StartExpiryLocked(session);
  return before.durability;
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
      checkpoint.update_before = session.updates;
      checkpoint.update = session.newest_update + 1;
      all.push_back(checkpoint);
      session.updates = session.newest_update = checkpoint.update;
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

bool SessionDirectory::RemoveCheckpoint(Session& session, const Session& at) {
  std::vector<SessionCheckpoint> removed;
  removed.reserve(1);
  Lock lock(mutex_);
  auto& all = session.checkpoints;
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& checkpoint) {
    return checkpoint.at.get() == &at;
  });
  // Nobody changes the list of a session that was removed.
  if (found == all.end() || session.deleted) return false;
  const bool newest = session.updates == found->update;
  session.updates = newest ? found->update_before : ++session.newest_update;
  removed.push_back(std::move(*found));
  all.erase(found);
  return true;
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
  return ContainsLocked(id);
}

bool SessionDirectory::ContainsLocked(const std::string& id) const {
  return sessions_.contains(id) || asleep_.Find(id).has_value() ||
         given_up_.contains(id);
}

std::vector<std::shared_ptr<Session>> SessionDirectory::AwakeAfter(
    const std::string& after, size_t count) const {
  std::vector<std::shared_ptr<Session>> page;
  page.reserve(count);
  for (bool more = true; more && page.size() < count;) {
    const size_t end = std::min(count, page.size() + kCopiedAtOnce);
    Lock lock(mutex_);
    auto next =
        sessions_.upper_bound(page.empty() ? std::string_view(after) : page.back()->id);
    for (; next != sessions_.end() && page.size() < end; ++next) {
      page.push_back(next->second);
    }
    more = next != sessions_.end();
  }
  return page;
}

absl::StatusOr<bool> SessionDirectory::Hold(Session& session,
                                            const std::string& request_id,
                                            const Resume* resume) {
  std::unique_lock lock(mutex_);
  if (session.deleted) {
    lock.unlock();
    return NotFound(session.id);
  }
  const auto& ids = session.request_ids;
  const bool remembered =
      !request_id.empty() && std::find(ids.begin(), ids.end(), request_id) != ids.end();
  if (remembered && resume == nullptr) {
    lock.unlock();
    return RequestRepeated(session.id);
  }
  if (session.paused) {
    lock.unlock();
    return SessionPaused(session.id);
  }
  if (resume != nullptr && resume->number != session.resumes) {
    lock.unlock();
    return StreamResumed();
  }
  if (session.held) return false;
  if (resume != nullptr) session.resumer = resume->call;
  if (!request_id.empty() && !remembered) {
    session.holder_request_id.push_back(request_id);
  }
  session.held = true;
  session.last_use_time = clock_.WallNow();
  if (!session.expires_at) StopExpiryLocked(session);
  return true;
}

bool SessionDirectory::Release(Session& session, bool taken) {
  CallbackList due;
  bool there;
  {
    Lock lock(mutex_);
    due.Take(session.resumer_turn);
    there = ReleaseLocked(session, taken);
  }
  if (!due.empty()) post_(due);
  return there;
}

bool SessionDirectory::ReleaseLocked(Session& session, bool taken) {
  const auto joined_from = std::exchange(session.joined_from, std::nullopt);
  taken = taken || joined_from;
  session.held = false;
  session.resumer.reset();
  if (taken) session.scored_from.reset();
  if (taken && !session.holder_request_id.empty()) {
    session.scored_from = joined_from;
    auto& ids = session.request_ids;
    const int64_t before = session.charge.bytes();
    const int64_t after = before + RememberedBytes(session.holder_request_id.front());
    const bool fits = session.charge.TrySet(after);
    ids.splice(ids.end(), session.holder_request_id);
    if (ids.size() > Session::kRequestIds || (!fits && ids.size() > 1)) {
      session.charge.Set(after - RememberedBytes(ids.front()));
      ids.pop_front();
    } else {
      session.charge.Set(after);
    }
  }
  session.holder_request_id.clear();
  session.running.store(false, std::memory_order_relaxed);
  if (session.deleted) return false;
  session.last_use_time = clock_.WallNow();
  StartExpiryLocked(session);
  return true;
}

uint64_t SessionDirectory::BeginResume(Session& session) {
  Lock lock(mutex_);
  return ++session.resumes;
}

bool SessionDirectory::IsNewestResume(const Session& session, uint64_t number) const {
  Lock lock(mutex_);
  return session.resumes == number;
}

std::shared_ptr<Call> SessionDirectory::ResumerOf(const Session& session) const {
  Lock lock(mutex_);
  return session.resumer.lock();
}

bool SessionDirectory::AwaitTurn(Session& session, const std::string& request_id,
                                 CallbackList& turn) {
  CallbackList due;
  {
    Lock lock(mutex_);
    const auto& holder = session.holder_request_id;
    if (!session.held || session.deleted) {
      due.Take(turn);
    } else if (!session.resumer.expired() ||
               (!holder.empty() && holder.front() == request_id)) {
      due.Take(session.resumer_turn);
      session.resumer_turn.Take(turn);
    } else {
      return false;
    }
  }
  if (!due.empty()) post_(due);
  return true;
}

void SessionDirectory::PostTurn(Session& session) {
  CallbackList due;
  {
    Lock lock(mutex_);
    due.Take(session.resumer_turn);
  }
  if (!due.empty()) post_(due);
}

void SessionDirectory::SetNewestCall(Session& session,
                                     std::shared_ptr<const CallRecord> record) {
  {
    Lock lock(mutex_);
    session.newest_call.swap(record);
    session.charge.Set(session.charge.bytes() - RecordBytes(record.get()) +
                       RecordBytes(session.newest_call.get()));
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

std::optional<int64_t> SessionDirectory::ForgetScored(Session& session) {
  Lock lock(mutex_);
  return std::exchange(session.scored_from, std::nullopt);
}

void SessionDirectory::SetJoined(Session& session, int64_t from) {
  Lock lock(mutex_);
  session.joined_from = from;
}

void SessionDirectory::TakeBack(Session& session, const SessionBefore& before) {
  {
    Lock lock(mutex_);
    session.joined_from.reset();
    if (before.copy) session.scored_from = before.scored_from;
  }
  SetNewestCall(session, before.newest_call);
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
  return static_cast<int64_t>(sessions_.size()) + asleep_.size();
}

int64_t SessionDirectory::size(size_t model) const {
  Lock lock(mutex_);
  return counts_[model];
}

int64_t SessionDirectory::stored(size_t model) const {
  Lock lock(mutex_);
  return stored_[model];
}

}  // namespace mnemon
