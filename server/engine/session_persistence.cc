// SPDX-License-Identifier: MIT
#include "server/engine/session_persistence.h"

#include <new>
#include <utility>

#include "base/heap_bytes.h"
#include "base/out_of_memory.h"
#include "server/engine/engine_errors.h"
#include "server/engine/rewind_tasks.h"
#include "server/engine/session_tasks.h"

namespace mnemon {
namespace {

// Of one id in a table of why sessions cannot be used, but for what is damaged: few
// are.
int64_t UnusableBytes(const std::string& id) {
  struct Node {
    void* next;
    size_t hash;
    std::string id;
    void* why[3];
  };
  return HeapBytes(sizeof(Node)) + static_cast<int64_t>(sizeof(void*)) +
         TextHeapBytes(id);
}

}  // namespace

SessionPersistence::SessionPersistence(const EngineContext& context,
                                       SessionStore& store,
                                       const std::vector<EngineModel>& models)
    : context_(context),
      store_(store, context.waiters),
      models_(models),
      unusable_bytes_(ChargeOf(context.memory, &EngineMemory::unusable)),
      writer_(store, context.callbacks, context.waiters,
              {.record = [this](const auto& journal) { return RecordOf(journal); },
               .lost = [this](const auto& journal,
                              const auto& status) { OnLost(journal, status); },
               .needs_base =
                   [this](const auto& journal) {
                     if (auto session = journal->session()) StoreAnew(session);
                   },
               .deleted = [this](const auto& journal) { OnDeleted(journal); }}) {}

SessionPersistence::~SessionPersistence() = default;

void SessionPersistence::SetRunners(std::vector<std::shared_ptr<ModelRunner>> runners) {
  runners_ = std::move(runners);
}

SnapshotPlace SessionPersistence::PlaceOf(size_t model) const {
  // What holds the place is on threads that end before the context does.
  return {.runner = runners_[model], .context = context_.shared_from_this()};
}

std::shared_ptr<Session> SessionPersistence::MakeCopy(size_t model) const {
  return std::make_shared<Session>("", model, nullptr, context_.memory,
                                   &EngineMemory::prompts);
}

void SessionPersistence::Adopt(const std::shared_ptr<Session>& session,
                               Durability durability, bool has_history) {
  session->journal = std::make_shared<SessionJournal>(writer_, session->id, durability,
                                                      SessionJournal::Stored{});
  session->journal->SetSession(session);
  if (has_history) session->journal->NeedBase();
  session->history.SetJournal(session->journal.get());
}

absl::Status SessionPersistence::CheckId(const std::string& id) const {
  std::lock_guard lock(mutex_);
  const auto found = unusable_.find(id);
  if (found == unusable_.end()) return absl::OkStatus();
  const Unusable& why = found->second;
  return why.damage ? *why.damage : engine_errors::SessionOfOtherModel(id, *why.model);
}

bool SessionPersistence::KeepUnusableLocked(const std::string& id, Unusable why) {
  const auto [kept, added] = unusable_.try_emplace(id, std::move(why));
  if (added) unusable_bytes_.Set(unusable_bytes_.bytes() + UnusableBytes(kept->first));
  return added;
}

void SessionPersistence::DropUnusableLocked(const std::string& id) {
  const auto found = unusable_.find(id);
  if (found == unusable_.end()) return;
  unusable_bytes_.Set(unusable_bytes_.bytes() - UnusableBytes(found->first));
  unusable_.erase(found);
}

bool SessionPersistence::GiveUp(const std::string& id, const absl::Status& damage) {
  std::lock_guard lock(mutex_);
  const bool added = KeepUnusableLocked(
      id, {.damage = std::make_shared<const absl::Status>(damage), .model = nullptr});
  if (context_.directory.RemoveAsleep(id)) return true;
  if (added) DropUnusableLocked(id);
  return false;
}

void SessionPersistence::DeleteDamaged(const std::string& id, OnSynced on_done) {
  // Of a session that nobody has. Its snapshots go with the next start.
  const auto journal = std::make_shared<SessionJournal>(writer_, id, Durability::kTurn,
                                                        SessionJournal::Stored{});
  journal->TryDelete(std::nullopt, [this, id, on_done](const absl::Status& status) {
    if (status.ok()) {
      std::lock_guard lock(mutex_);
      DropUnusableLocked(id);
      context_.directory.FreeId(id);
    }
    on_done(status);
  });
}

std::optional<std::string> SessionPersistence::RecordOf(
    const SessionJournal& journal) const {
  const std::shared_ptr<Session> session = journal.session();
  if (session == nullptr) return std::nullopt;
  const ModelFacts& model = models_[session->model].facts;
  const SessionJournal::Stored kept = journal.stored();
  StoredSession stored;
  stored.model = model.name;
  stored.model_id = model.model_id;
  stored.durability = journal.durability();
  stored.create_time = session->create_time;
  stored.sequence = kept.sequence;
  stored.rebuilt = session->rebuilt;
  stored.parent = session->parent;
  stored.request_id = session->request_id;
  stored.request_text = session->request_text;
  stored.drawn_id = session->drawn_id;
  stored.snapshots = kept.snapshots;
  stored.checkpoints = kept.checkpoints;
  context_.directory.Describe(*session, stored);
  const auto expiry = stored.expiry();
  const int64_t unix_ms = expiry
                              ? std::chrono::duration_cast<std::chrono::milliseconds>(
                                    expiry->time_since_epoch())
                                    .count()
                              : 0;
  return RecordExpiry(unix_ms) + FormatStoredSession(stored);
}

void SessionPersistence::OnLost(const SessionJournal& journal,
                                const absl::Status& status) {
  const std::shared_ptr<Session> session = journal.session();
  if (session == nullptr || runners_.empty()) return;
  runners_[session->model]->Do(MakeEndCallTask(session, status));
}

void SessionPersistence::OnDeleted(const SessionJournal& journal) {
  const std::shared_ptr<Session> session = journal.session();
  if (session == nullptr || !context_.directory.Retire(session)) return;
  if (!runners_.empty()) runners_[session->model]->Forget(session);
}

void SessionPersistence::Settle(const std::shared_ptr<Session>& session,
                                WaiterKind kind, SessionBefore before,
                                OnSynced on_settled) {
  ModelRunner& runner = *runners_[session->model];
  const auto settle = [this, session, &runner, before = std::move(before),
                       on_settled](const absl::Status& status) {
    const auto release = [this, session, on_settled](const absl::Status& outcome) {
      context_.directory.Release(*session, /*taken=*/false);
      on_settled(outcome);
    };
    OnAnswer<bool> taken_back;
    const absl::Status begun = CatchOutOfMemory({}, [&] {
      if (!status.ok()) {
        taken_back = [release, status](const absl::StatusOr<bool>&) {
          release(status);
        };
        runner.Do(MakeTakeBackTask(session, before, context_.directory, taken_back));
      } else if (before.copy) {
        runner.Do(MakeUnpinTask(before.copy));
      }
      return absl::OkStatus();
    });
    if (!taken_back) return release(status);
    if (!begun.ok()) taken_back(begun);
  };
  session->journal->Flush(kind, settle);
}

void SessionPersistence::Delete(const Session& session, OnSynced on_done) {
  if (session.journal == nullptr) {
    if (on_done) on_done(absl::OkStatus());
    return;
  }
  session.journal->Delete([on_done = std::move(on_done)](const absl::Status& status) {
    if (on_done) on_done(status);
  });
}

void SessionPersistence::RequestSnapshot(
    const std::shared_ptr<Session>& session) noexcept {
  if (session->journal == nullptr) return;
  absl::Status refused;
  try {
    std::lock_guard lock(mutex_);
    if (stopping_) {
      refused = engine_errors::Draining();
    } else if (!session->journal->Want()) {
      return;
    } else {
      wanted_.push_back(session);
    }
  } catch (const std::bad_alloc&) {
    session->journal->Begun();
    refused = OutOfMemoryError();
  }
  refused.ok() ? PostNext() : session->journal->BaseFailed(refused);
}

void SessionPersistence::RequestAtRest(
    const std::shared_ptr<Session>& session) noexcept {
  const EngineOptions& options = context_.options;
  if (session->journal == nullptr) return;
  const int64_t newer = session->history.size() - session->journal->snapshot_tokens();
  if (options.snapshot_rest.count() == 0 || newer >= options.snapshot_tokens) {
    return RequestSnapshot(session);
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
    return RequestSnapshot(session);
  }
  context_.snapshots.PostLater(later);
}

void SessionPersistence::RequestRested() {
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
    if (!one.session->running && !one.session->forgotten) RequestSnapshot(one.session);
  }
  context_.snapshots.PostLater(later);
}

void SessionPersistence::StartNext() {
  std::shared_ptr<Session> session;
  {
    std::lock_guard lock(mutex_);
    if (saving_ || stopping_ || wanted_.empty()) return;
    saving_ = true;
    session = std::move(wanted_.front());
    wanted_.pop_front();
  }
  try {
    SaveNow(session);
  } catch (const std::bad_alloc&) {
    session->journal->BaseFailed(OutOfMemoryError());
    SaveDone();
  }
}

void SessionPersistence::SaveNow(const std::shared_ptr<Session>& session) {
  const std::shared_ptr<SessionJournal> journal = session->journal;
  journal->Begun();
  const bool base = journal->needs_base();
  // Counted first, so that it stays there.
  const absl::StatusOr<std::shared_ptr<Session>> used =
      session->resident || base ? Use(session, /*patient=*/false) : session;
  if (!used.ok()) {
    if (base) journal->BaseFailed(used.status());
    return SaveDone();
  }
  if (!base && (!journal->durable() || !session->resident || !journal->status().ok() ||
                journal->snapshot_tokens() == session->history.size())) {
    return SaveDone();
  }
  const auto sequence = std::make_shared<uint64_t>(0);
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
        SaveDone();
      };
  done.Watch(context_.waiters, WaiterKind::kSnapshot);
  const absl::Status begun = CatchOutOfMemory({}, [&] {
    const auto at_copy = [journal, base, sequence] {
      *sequence = journal->BeginSnapshot(base);
    };
    ExportSnapshot(PlaceOf(session->model), *used, MakeCopy(session->model),
                   {.undelivered = true, .at_copy = at_copy}, "{}", done);
    return absl::OkStatus();
  });
  if (!begun.ok()) done(begun);
}

std::optional<StoredSnapshot> SessionPersistence::PutSnapshot(
    const EncodedSnapshot& snapshot) {
  const absl::StatusOr<std::string> name = store_.PutSnapshot(snapshot.bytes);
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

void SessionPersistence::KeepSnapshot(SessionJournal& journal, EncodedSnapshot snapshot,
                                      uint64_t sequence, bool base) {
  const std::optional<StoredSnapshot> kept = PutSnapshot(snapshot);
  // A base is the history; its state can be computed again.
  if (!kept && !base) return;
  const bool taken = journal.PutSnapshot(
      {.sequence = sequence, .history = std::move(snapshot.history), .snapshot = kept},
      base);
  if (!taken && kept) store_.DropSnapshot(kept->name);
}

void SessionPersistence::SaveDone() {
  {
    std::lock_guard lock(mutex_);
    saving_ = false;
    if (wanted_.empty()) saved_.notify_all();
  }
  PostNext();
}

void SessionPersistence::PostNext() noexcept {
  // On a thread of its own: it may read the store, which those who ask cannot wait for,
  // and be done at once, as the one before.
  static_cast<void>(CatchOutOfMemory({}, [&] {
    context_.snapshots.Post(MakeCallback([this] { StartNext(); }));
    return absl::OkStatus();
  }));
  // Where memory has run out the next request begins with those that wait.
}

bool SessionPersistence::SaveAll(std::chrono::steady_clock::time_point deadline) {
  std::string after;
  constexpr size_t kAtOnce = 64;
  for (bool more = true; more;) {
    const auto sessions = context_.directory.AwakeAfter(after, kAtOnce);
    for (const auto& session : sessions) {
      if (session->journal != nullptr && session->journal->durable())
        RequestSnapshot(session);
    }
    more = sessions.size() == kAtOnce;
    if (more) after = sessions.back()->id;
  }
  std::unique_lock lock(mutex_);
  const bool saved =
      saved_.wait_until(lock, deadline, [this] { return wanted_.empty() && !saving_; });
  lock.unlock();
  return writer_.WaitIdle(deadline) && saved;
}

void SessionPersistence::SaveCheckpoint(const std::shared_ptr<Session>& session,
                                        const SessionCheckpoint& checkpoint,
                                        OnSynced on_saved) {
  const absl::Status begun = CatchOutOfMemory({}, [&] {
    ExportSnapshot(
        PlaceOf(session->model), checkpoint.at, MakeCopy(session->model), {}, "{}",
        [this, journal = session->journal, checkpoint, on_saved](auto snapshot) {
          const absl::Status put = CatchOutOfMemory({}, [&] {
            if (snapshot.ok()) KeepCheckpoint(*journal, checkpoint, *snapshot);
            return snapshot.status();
          });
          if (!put.ok()) return on_saved(put);
          journal->Flush(WaiterKind::kFlush, [journal, id = checkpoint.id,
                                              on_saved](const absl::Status& status) {
            // Its history may not have come into the store.
            static_cast<void>(CatchOutOfMemory({}, [&] {
              if (!status.ok()) journal->DropCheckpoint(id);
              return absl::OkStatus();
            }));
            on_saved(status);
          });
        });
    return absl::OkStatus();
  });
  if (!begun.ok()) on_saved(begun);
}

void SessionPersistence::KeepCheckpoint(SessionJournal& journal,
                                        const SessionCheckpoint& checkpoint,
                                        EncodedSnapshot& snapshot) {
  StoredSnapshot kept = PutSnapshot(snapshot).value_or(StoredSnapshot{
      .name = "", .tokens = static_cast<int64_t>(snapshot.history.size())});
  const std::string name = kept.name;
  if (!journal.PutCheckpoint({.id = checkpoint.id,
                              .request_id = checkpoint.request_id,
                              .create_time = checkpoint.create_time,
                              .snapshot = std::move(kept)},
                             std::move(snapshot.history))) {
    store_.DropSnapshot(name);
  }
}

void SessionPersistence::StoreAnew(const std::shared_ptr<Session>& session) noexcept {
  // Before the base, so that they come with it, mostly.
  const SessionJournal& journal = *session->journal;
  static_cast<void>(CatchOutOfMemory({}, [&] {
    if (!journal.durable()) return absl::OkStatus();
    for (const SessionCheckpoint& checkpoint :
         context_.directory.CheckpointsOf(*session)) {
      if (!checkpoint.at->resident || journal.HasCheckpoint(checkpoint.id)) continue;
      // One that is refused stays in memory.
      SaveCheckpoint(session, checkpoint, [](const absl::Status&) {});
    }
    return absl::OkStatus();
  }));
  RequestSnapshot(session);
}

void SessionPersistence::Stop() {
  std::deque<std::shared_ptr<Session>> wanted;
  std::list<Resting> resting;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wanted.swap(wanted_);
    resting_at_.clear();
    resting.swap(resting_);
    saved_.notify_all();
    freed_.notify_all();
  }
  store_.StopReading();
  // Whoever waits for a base is told.
  const absl::Status draining = CatchOutOfMemory({}, engine_errors::Draining);
  for (const auto& session : wanted) session->journal->BaseFailed(draining);
}

PersistenceStats SessionPersistence::stats() const {
  PersistenceStats stats;
  {
    std::lock_guard lock(mutex_);
    stats = stats_;
  }
  stats.journal = writer_.stats();
  stats.healthy = store_.healthy() && writer_.status().ok();
  stats.store = store_.condition();
  return stats;
}

}  // namespace mnemon
