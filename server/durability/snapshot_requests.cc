// SPDX-License-Identifier: MIT
#include "server/durability/snapshot_requests.h"

#include <cstdint>
#include <new>
#include <utility>

#include "base/out_of_memory.h"
#include "server/durability/stored_journal.h"
#include "server/requests/engine_errors.h"

namespace mnemon {

void SnapshotRequests::Request(const std::shared_ptr<Session>& session) noexcept {
  if (session->journal == nullptr) return;
  absl::Status refused;
  try {
    std::lock_guard lock(mutex_);
    if (stopping_) {
      refused = engine_errors::Draining();
    } else if (!JournalOf(*session).SetWanted(true)) {
      return;
    } else {
      wanted_.push_back(session);
    }
  } catch (const std::bad_alloc&) {
    JournalOf(*session).SetWanted(false);
    refused = OutOfMemoryError();
  }
  refused.ok() ? PostNext() : JournalOf(*session).BaseFailed(refused);
}

void SnapshotRequests::RequestAtRest(const std::shared_ptr<Session>& session) noexcept {
  const EngineOptions& options = context_.options;
  if (session->journal == nullptr) return;
  const int64_t newer = session->history.size() - JournalOf(*session).snapshot_tokens();
  if (options.snapshot_rest.count() == 0 || newer >= options.snapshot_tokens) {
    return Request(session);
  }
  const auto until = std::chrono::steady_clock::now() + options.snapshot_rest;
  CallbackList later;
  try {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    if (!rest_ends_) later.Add(MakeCallback([this] { RequestRested(); }));
    if (const auto found = resting_at_.find(session.get());
        found != resting_at_.end()) {
      found->second->until = until;
      resting_.splice(resting_.end(), resting_, found->second);
    } else {
      std::list<Resting> node = {{session, until}};
      resting_at_.emplace(session.get(), node.begin());
      resting_.splice(resting_.end(), node);
    }
    rest_ends_ = true;
  } catch (const std::bad_alloc&) {
    return Request(session);
  }
  context_.snapshots.PostLater(later);
}

void SnapshotRequests::RequestRested() {
  const auto now = std::chrono::steady_clock::now();
  std::list<Resting> rested;
  CallbackList later;
  try {
    std::lock_guard lock(mutex_);
    rest_ends_ = false;
    while (!resting_.empty() && resting_.front().until <= now) {
      resting_at_.erase(resting_.front().session.get());
      rested.splice(rested.end(), resting_, resting_.begin());
    }
    if (!resting_.empty() && !stopping_) {
      later.Add(MakeCallback([this] { RequestRested(); }));
      rest_ends_ = true;
    }
  } catch (const std::bad_alloc&) {
    // The next turn that ends asks again.
  }
  for (const Resting& one : rested) {
    // The end of the call that it has asks again.
    if (!one.session->in_runner.running && !one.session->forgotten) {
      Request(one.session);
    }
  }
  context_.snapshots.PostLater(later);
}

void SnapshotRequests::StartNext() {
  std::shared_ptr<Session> session;
  {
    std::lock_guard lock(mutex_);
    if (saving_ || stopping_ || wanted_.empty()) return;
    saving_ = true;
    session = std::move(wanted_.front());
    wanted_.pop_front();
  }
  try {
    saves_.Save(session, [this] { OnSaved(); });
  } catch (const std::bad_alloc&) {
    JournalOf(*session).BaseFailed(OutOfMemoryError());
    OnSaved();
  }
}

void SnapshotRequests::OnSaved() {
  {
    std::lock_guard lock(mutex_);
    saving_ = false;
    if (wanted_.empty()) saved_.notify_all();
  }
  PostNext();
}

void SnapshotRequests::PostNext() noexcept {
  // On a thread of its own: it may read the store, which those who ask cannot wait for,
  // and be done at once, as the one before.
  static_cast<void>(CatchOutOfMemory({}, [&] {
    context_.snapshots.Post(MakeCallback([this] { StartNext(); }));
    return absl::OkStatus();
  }));
  // Where memory has run out the next request begins with those that wait.
}

bool SnapshotRequests::SaveAll(std::chrono::steady_clock::time_point deadline) {
  std::string after;
  constexpr size_t kAtOnce = 64;
  for (bool more = true; more;) {
    const auto sessions = context_.directory.AwakeAfter(after, kAtOnce);
    for (const auto& session : sessions) {
      if (session->journal != nullptr && session->journal->durable()) Request(session);
    }
    more = sessions.size() == kAtOnce;
    if (more) after = sessions.back()->id;
  }
  std::unique_lock lock(mutex_);
  return saved_.wait_until(lock, deadline,
                           [this] { return wanted_.empty() && !saving_; });
}

std::deque<std::shared_ptr<Session>> SnapshotRequests::Stop() {
  std::deque<std::shared_ptr<Session>> wanted;
  std::list<Resting> resting;
  std::lock_guard lock(mutex_);
  stopping_ = true;
  wanted.swap(wanted_);
  resting_at_.clear();
  resting.swap(resting_);
  saved_.notify_all();
  return wanted;
}

}  // namespace mnemon
