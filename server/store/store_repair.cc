// SPDX-License-Identifier: MIT
#include "base/status_macros.h"
#include "base/strings.h"
#include "rocksdb/db.h"
#include "server/store/session_store.h"
#include "server/store/store_copy.h"
#include "server/store/store_directory.h"
#include "server/store/store_environment.h"
#include "server/store/store_key.h"
#include "server/store/store_status.h"

namespace mnemon {
namespace {

constexpr size_t kBatchBytes = size_t{1} << 20;

using Say = std::function<void(const std::string&)>;

// Remakes RocksDB's own lists of the tables and logs that can be read. What they leave
// out goes to the folder lost/, which the next StoreDirectory::Open sets aside.
absl::Status RemakeLists(const StoreCopy::Place& place, const Say& say) {
  MNEMON_ASSIGN_OR_RETURN(const StoreCopy::Content content, StoreCopy::Look(place));
  if (content == StoreCopy::Content::kNone) return absl::OkStatus();
  const StoreDatabaseOptions chosen =
      MakeStoreOptions(place.options, place.files, /*format_1=*/false);
  const rocksdb::Status status =
      rocksdb::RepairDB(place.path, chosen.database, chosen.tables);
  say(StrCat("lists of ", place.path, ": ",
             status.ok() ? "made anew" : "cannot be made"));
  if (!status.ok()) return absl::OkStatus();
  // Adds the tables that have no files.
  return StoreCopy::Open(place, {.create = true}).status();
}

// Writes all that `store` can read to one copy in `place`.
absl::StatusOr<std::unique_ptr<StoreCopy>> Gather(SessionStore& store,
                                                  const StoreCopy::Place& place,
                                                  const Say& say) {
  MNEMON_RETURN_IF_ERROR(StoreCopy::Wipe(place));
  MNEMON_ASSIGN_OR_RETURN(auto made, StoreCopy::Open(place, {.create = true}));
  rocksdb::WriteBatch batch;
  absl::Status status;
  int64_t ranges = 0;
  for (const StoreTable table : kStoreTables) {
    MNEMON_RETURN_IF_ERROR(store.Scan(
        table, {},
        [&](const SessionKey& session, std::string_view name, std::string_view value) {
          status = StoreStatus(
              batch.Put(made->table(table), StoreKey(table, session, name), value));
          if (status.ok() && batch.GetDataSize() > kBatchBytes) {
            status = made->Fill(batch);
            batch.Clear();
          }
          return status.ok();
        },
        [&](const UnreadableRange& range) {
          ++ranges;
          say(StrCat("cannot be read: keys from session '", range.first_id, "' to '",
                     range.last_id, "'"));
        }));
    MNEMON_RETURN_IF_ERROR(status);
  }
  MNEMON_RETURN_IF_ERROR(made->Fill(batch));
  say(StrCat("what can be read was written anew, without ", ranges, " ranges of keys"));
  return made;
}

}  // namespace

absl::Status RepairSessionStore(const std::string& directory, const Say& say) {
  MNEMON_RETURN_IF_ERROR(StoreDirectory::Find(directory));
  StoreCopy::Place fresh{.files = rocksdb::FileSystem::Default(),
                         .path = StoreDirectory::unfinished_copy(directory)};
  std::string synced_number;
  {
    MNEMON_ASSIGN_OR_RETURN(const StoreDirectory owned,
                            StoreDirectory::Open(directory));
    fresh.id = owned.id();
    synced_number = owned.synced_number();
  }
  auto store = OpenSessionStore(directory);
  if (!store.ok() && absl::IsDataLoss(store.status())) {
    say(std::string(store.status().message()));
    {
      MNEMON_ASSIGN_OR_RETURN(const StoreDirectory owned,
                              StoreDirectory::Open(directory));
      for (const int which : {0, 1}) {
        StoreCopy::Place place = fresh;
        place.path = owned.copy(which);
        MNEMON_RETURN_IF_ERROR(RemakeLists(place, say));
      }
    }
    store = OpenSessionStore(directory);
  }
  MNEMON_RETURN_IF_ERROR(store.status());
  if ((*store)->AwaitWhole(3600)) {
    for (const int which : {0, 1}) {
      say(StrCat("copy ", which == 0 ? "a" : "b", ": whole, was found ",
                 (*store)->condition().found[which]));
    }
    return absl::OkStatus();
  }
  // Both have blocks that cannot be read: a third copy gets what either can read. It
  // takes their names last: until then nothing has changed.
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<StoreCopy> gathered,
                          Gather(**store, fresh, say));
  store->reset();
  const uint64_t number = SyncedNumber(synced_number).Read() + 1;
  MNEMON_RETURN_IF_ERROR(gathered->Write({}, number, Sync::kYes));
  gathered.reset();
  MNEMON_RETURN_IF_ERROR(StoreStatus(
      fresh.files->RenameFile(fresh.path, StoreDirectory::repaired_copy(directory),
                              rocksdb::IOOptions(), nullptr)));
  return StoreDirectory::Open(directory).status();
}

}  // namespace mnemon
