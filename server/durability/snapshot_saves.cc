// SPDX-License-Identifier: MIT
#include "server/durability/snapshot_saves.h"

#include <new>
#include <string>
#include <utility>

#include "base/out_of_memory.h"
#include "server/requests/engine_errors.h"

namespace mnemon {

void SnapshotSaves::Request(const std::shared_ptr<Session>& session) noexcept {
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

void SnapshotSaves::RequestAtRest(const std::shared_ptr<Session>& session) noexcept {
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

void SnapshotSaves::RequestRested() {
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

void SnapshotSaves::StartNext() {
  std::shared_ptr<Session> session;
  {
    std::lock_guard lock(mutex_);
    if (saving_ || stopping_ || wanted_.empty()) return;
    saving_ = true;
    session = std::move(wanted_.front());
    wanted_.pop_front();
  }
  try {
    Save(session);
  } catch (const std::bad_alloc&) {
    JournalOf(*session).BaseFailed(OutOfMemoryError());
    OnSaved();
  }
}

void SnapshotSaves::OnSaved() {
  {
    std::lock_guard lock(mutex_);
    saving_ = false;
    if (wanted_.empty()) saved_.notify_all();
  }
  PostNext();
}

void SnapshotSaves::PostNext() noexcept {
  // On a thread of its own: it may read the store, which those who ask cannot wait for,
  // and be done at once, as the one before.
  static_cast<void>(CatchOutOfMemory({}, [&] {
    context_.snapshots.Post(MakeCallback([this] { StartNext(); }));
    return absl::OkStatus();
  }));
  // Where memory has run out the next request begins with those that wait.
}

void SnapshotSaves::Save(const std::shared_ptr<Session>& session) {
  const auto journal = std::static_pointer_cast<StoredJournal>(session->journal);
  journal->SetWanted(false);
  const bool base = journal->needs_base();
  // Counted first, so that it stays there.
  const absl::StatusOr<std::shared_ptr<Session>> used =
      session->resident || base ? loader_.Use(session, /*patient=*/false) : session;
  if (!used.ok()) {
    if (base) journal->BaseFailed(used.status());
    return OnSaved();
  }
  if (!base && (!journal->durable() || !session->resident || !journal->status().ok() ||
                journal->snapshot_tokens() == session->history.size())) {
    return OnSaved();
  }
  const auto sequence = std::make_shared<uint64_t>(0);
  CopyScope scope{.undelivered = true, .at_copy = [journal, base, sequence] {
                    *sequence = journal->BeginSnapshot(base);
                  }};
  OnAnswer<EncodedSnapshot> done =
      [this, journal, base, sequence,
       // In use until the journal has the snapshot.
       used = *used](absl::StatusOr<EncodedSnapshot> snapshot) {
        if (snapshot.ok()) {
          KeepSnapshot(*journal, *std::move(snapshot), *sequence, base);
        } else {
          {
            std::lock_guard lock(mutex_);
            ++stats_.snapshot_failures;
          }
          if (base) journal->BaseFailed(snapshot.status());
        }
        OnSaved();
      };
  done.Watch(context_.waiters, WaiterKind::kSnapshot);
  ExportSnapshot(stores_.PlaceOf(session->model), *used, std::move(scope), "{}",
                 std::move(done));
}

std::optional<StoredSnapshot> SnapshotSaves::Put(const EncodedSnapshot& snapshot) {
  const absl::StatusOr<std::string> name = stores_.store.PutSnapshot(snapshot.bytes);
  std::lock_guard lock(mutex_);
  if (!name.ok()) {
    ++stats_.snapshot_failures;
    return std::nullopt;
  }
  ++stats_.snapshots;
  stats_.snapshot_bytes += static_cast<int64_t>(snapshot.bytes.size());
  return StoredSnapshot{.name = *name,
                        .tokens = static_cast<int64_t>(snapshot.history.size()),
                        .computed = snapshot.computed};
}

void SnapshotSaves::KeepSnapshot(StoredJournal& journal, EncodedSnapshot snapshot,
                                 uint64_t sequence, bool base) {
  const std::optional<StoredSnapshot> kept = Put(snapshot);
  // A base is the history; its state can be computed again.
  if (!kept && !base) return;
  if (!journal.PutSnapshot(base, sequence, std::move(snapshot.history), kept) && kept)
    stores_.store.DropSnapshot(kept->name);
}

void SnapshotSaves::SaveCheckpoint(const std::shared_ptr<Session>& session,
                                   const SessionCheckpoint& checkpoint,
                                   OnSynced on_saved) try {
  const auto keep = [this, checkpoint, on_saved,
                     journal = std::static_pointer_cast<StoredJournal>(
                         session->journal)](absl::StatusOr<EncodedSnapshot> snapshot) {
    const absl::Status put = CatchOutOfMemory({}, [&] {
      if (snapshot.ok()) KeepCheckpoint(*journal, checkpoint, *snapshot);
      return snapshot.status();
    });
    if (!put.ok()) return on_saved(put);
    journal->Flush(WaiterKind::kFlush,
                   [journal, id = checkpoint.id, on_saved](const absl::Status& status) {
                     // Its history may not have come into the store.
                     static_cast<void>(CatchOutOfMemory({}, [&] {
                       if (!status.ok()) journal->DropCheckpoint(id);
                       return absl::OkStatus();
                     }));
                     on_saved(status);
                   });
  };
  ExportSnapshot(stores_.PlaceOf(session->model), checkpoint.at, {}, "{}", keep);
} catch (const std::bad_alloc&) {
  on_saved(OutOfMemoryError());
}

void SnapshotSaves::KeepCheckpoint(StoredJournal& journal,
                                   const SessionCheckpoint& checkpoint,
                                   EncodedSnapshot& snapshot) {
  StoredSnapshot kept = Put(snapshot).value_or(StoredSnapshot{
      .name = "", .tokens = static_cast<int64_t>(snapshot.history.size())});
  const std::string name = kept.name;
  if (!journal.PutCheckpoint({.id = checkpoint.id,
                              .request_id = checkpoint.request_id,
                              .create_time = checkpoint.create_time,
                              .snapshot = std::move(kept)},
                             std::move(snapshot.history))) {
    stores_.store.DropSnapshot(name);
  }
}

PersistenceStats SnapshotSaves::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

bool SnapshotSaves::SaveAll(std::chrono::steady_clock::time_point deadline) {
  context_.directory.ForEachAwake([this](const std::shared_ptr<Session>& session) {
    if (session->journal != nullptr && session->journal->durable()) Request(session);
  });
  std::unique_lock lock(mutex_);
  return saved_.wait_until(lock, deadline,
                           [this] { return wanted_.empty() && !saving_; });
}

void SnapshotSaves::Stop() {
  std::deque<std::shared_ptr<Session>> wanted;
  std::list<Resting> resting;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wanted.swap(wanted_);
    resting_at_.clear();
    resting.swap(resting_);
    saved_.notify_all();
  }
  const absl::Status draining = CatchOutOfMemory({}, engine_errors::Draining);
  for (const auto& session : wanted) JournalOf(*session).BaseFailed(draining);
}

}  // namespace mnemon
