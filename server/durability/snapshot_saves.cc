// SPDX-License-Identifier: MIT
#include "server/durability/snapshot_saves.h"

#include <string>
#include <utility>

#include "base/out_of_memory.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

void SnapshotSaves::Save(const std::shared_ptr<Session>& session,
                         const std::function<void()>& on_done) {
  const auto journal = std::static_pointer_cast<StoredJournal>(session->journal);
  journal->SetWanted(false);
  const bool base = journal->needs_base();
  // Counted first, so that it stays there.
  const absl::StatusOr<std::shared_ptr<Session>> used =
      session->resident || base ? loader_.Use(session, /*patient=*/false) : session;
  if (!used.ok()) {
    if (base) journal->BaseFailed(used.status());
    return on_done();
  }
  if (!base && (!journal->durable() || !session->resident || !journal->status().ok() ||
                journal->snapshot_tokens() == session->history.size())) {
    return on_done();
  }
  const auto sequence = std::make_shared<uint64_t>(0);
  OnAnswer<EncodedSnapshot> done =
      [this, journal, base, sequence, on_done,
       // In use until the journal has the snapshot.
       used = *used](absl::StatusOr<EncodedSnapshot> snapshot) {
        if (snapshot.ok()) {
          KeepSnapshot(*journal, *std::move(snapshot), *sequence, base);
        } else {
          {
            std::lock_guard lock(mutex_);
            ++counts_.failures;
          }
          if (base) journal->BaseFailed(snapshot.status());
        }
        on_done();
      };
  done.Watch(stores_.engine.waiters, WaiterKind::kSnapshot);
  const absl::Status begun = CatchOutOfMemory({}, [&] {
    const auto at_copy = [journal, base, sequence] {
      *sequence = journal->BeginSnapshot(base);
    };
    ExportSnapshot(stores_.PlaceOf(session->model), *used,
                   stores_.MakeCopy(session->model),
                   {.undelivered = true, .at_copy = at_copy}, "{}", done);
    return absl::OkStatus();
  });
  if (!begun.ok()) done(begun);
}

std::optional<StoredSnapshot> SnapshotSaves::Put(const EncodedSnapshot& snapshot) {
  const absl::StatusOr<std::string> name = stores_.store.PutSnapshot(snapshot.bytes);
  std::lock_guard lock(mutex_);
  if (!name.ok()) {
    ++counts_.failures;
    return std::nullopt;
  }
  ++counts_.snapshots;
  counts_.bytes += static_cast<int64_t>(snapshot.bytes.size());
  return StoredSnapshot{.name = *name,
                        .tokens = static_cast<int64_t>(snapshot.history.size()),
                        .computed = snapshot.computed};
}

void SnapshotSaves::KeepSnapshot(StoredJournal& journal, EncodedSnapshot snapshot,
                                 uint64_t sequence, bool base) {
  const std::optional<StoredSnapshot> kept = Put(snapshot);
  // A base is the history; its state can be computed again.
  if (!kept && !base) return;
  const bool taken = journal.PutSnapshot(
      {.sequence = sequence, .history = std::move(snapshot.history), .snapshot = kept},
      base);
  if (!taken && kept) stores_.store.DropSnapshot(kept->name);
}

void SnapshotSaves::SaveCheckpoint(const std::shared_ptr<Session>& session,
                                   const SessionCheckpoint& checkpoint,
                                   OnSynced on_saved) {
  const absl::Status begun = CatchOutOfMemory({}, [&] {
    ExportSnapshot(
        stores_.PlaceOf(session->model), checkpoint.at,
        stores_.MakeCopy(session->model), {}, "{}",
        [this, journal = std::static_pointer_cast<StoredJournal>(session->journal),
         checkpoint, on_saved](auto snapshot) {
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

SnapshotSaves::Counts SnapshotSaves::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace mnemon
