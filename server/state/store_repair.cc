// SPDX-License-Identifier: MIT
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "server/state/session_store.h"
#include "server/state/store_copy.h"
#include "server/state/store_directory.h"
#include "server/state/store_file_system.h"
#include "server/state/store_key.h"
#include "server/state/store_opening.h"
#include "server/state/store_options.h"
#include "server/state/store_status.h"
#include "server/state/synced_number.h"

namespace mnemon {
namespace {

constexpr size_t kBatchBytes = size_t{1} << 20;

using Say = std::function<void(const std::string&)>;

// RocksDB's own lists made anew of the tables and logs that can be read.
// What they leave out goes to the folder `aside`.
absl::Status RemakeLists(const StoreCopy::Place& place, const std::string& aside,
                         const Say& say) {
  MNEMON_ASSIGN_OR_RETURN(const StoreCopy::Content content, StoreCopy::Look(place));
  if (content == StoreCopy::Content::kNone) return absl::OkStatus();
  const auto files = std::make_shared<StoreFileSystem>(place.files);
  const std::unique_ptr<rocksdb::Env> environment = rocksdb::NewCompositeEnv(files);
  const StoreDatabaseOptions chosen = MakeStoreOptions(place.options, environment.get(),
                                                       std::make_shared<StoreHealth>(),
                                                       /*format_1=*/false);
  const rocksdb::Status status =
      rocksdb::RepairDB(place.path, chosen.database, chosen.tables);
  say(StrCat("lists of ", place.path, ": ",
             status.ok() ? "made anew" : "cannot be made"));
  if (status.ok()) {
    // Those of tables that have no files are not among them.
    MNEMON_RETURN_IF_ERROR(StoreCopy::Open(place, {.create = true}).status());
  }
  StoreCopy::Place left_out = place;
  left_out.path += "/lost";
  const rocksdb::IOOptions options;
  if (!files->FileExists(left_out.path, options, nullptr).ok()) return absl::OkStatus();
  MNEMON_RETURN_IF_ERROR(SetCopyAside(left_out, aside));
  return StoreStatus(files->DeleteDir(left_out.path, options, nullptr));
}

// All that `store` can read, as one copy in `place`.
absl::Status Gather(SessionStore& store, const StoreCopy::Place& place, uint64_t number,
                    const Say& say) {
  MNEMON_RETURN_IF_ERROR(StoreCopy::Wipe(place));
  MNEMON_ASSIGN_OR_RETURN(const auto made, StoreCopy::Open(place, {.create = true}));
  rocksdb::WriteBatch batch;
  absl::Status status;
  int64_t ranges = 0;
  for (const StoreTable table :
       {StoreTable::kSessions, StoreTable::kJournal, StoreTable::kCheckpoints}) {
    MNEMON_RETURN_IF_ERROR(store.Scan(
        table, {},
        [&](const SessionKey& session, std::string_view name, std::string_view value) {
          status =
              StoreStatus(batch.Put(made->table(table), StoreKey(table, session, name),
                                    {value.data(), value.size()}));
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
  return made->Write({}, number, Sync::kYes);
}

}  // namespace

absl::Status RepairSessionStore(const std::string& directory, const Say& say) {
  const std::shared_ptr<rocksdb::FileSystem> files = rocksdb::FileSystem::Default();
  uint64_t number = 1;
  {
    MNEMON_ASSIGN_OR_RETURN(const StoreDirectory owned,
                            StoreDirectory::Open(directory));
    number = SyncedNumber(owned.synced_number()).Read() + 1;
  }
  auto store = OpenSessionStore(directory);
  if (!store.ok() && absl::IsDataLoss(store.status())) {
    say(std::string(store.status().message()));
    {
      MNEMON_ASSIGN_OR_RETURN(const StoreDirectory owned,
                              StoreDirectory::Open(directory));
      for (const int which : {0, 1}) {
        MNEMON_RETURN_IF_ERROR(RemakeLists({.files = files,
                                            .path = owned.copy(which),
                                            .id = owned.id(),
                                            .options = {}},
                                           owned.damaged_copy(which), say));
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
  // Both have blocks that cannot be read: a third one has what either can.
  StoreCopy::Place fresh{.files = files, .path = "", .id = "", .options = {}};
  const std::string path = directory + "/db/repaired";
  MNEMON_RETURN_IF_ERROR(
      StoreStatus(files->CreateDirIfMissing(path, rocksdb::IOOptions(), nullptr)));
  fresh.path = path;
  MNEMON_RETURN_IF_ERROR(Gather(**store, fresh, number, say));
  store->reset();
  MNEMON_ASSIGN_OR_RETURN(const StoreDirectory owned, StoreDirectory::Open(directory));
  for (const int which : {0, 1}) {
    MNEMON_RETURN_IF_ERROR(SetCopyAside(
        {.files = files, .path = owned.copy(which), .id = "", .options = {}},
        owned.damaged_copy(which)));
  }
  std::vector<std::string> names;
  MNEMON_RETURN_IF_ERROR(
      StoreStatus(files->GetChildren(path, rocksdb::IOOptions(), &names, nullptr)));
  // CURRENT last: until then the copy is none.
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name != "CURRENT"; });
  for (const std::string& name : names) {
    if (name == "." || name == "..") continue;
    MNEMON_RETURN_IF_ERROR(StoreStatus(files->RenameFile(
        path + "/" + name, owned.copy(0) + "/" + name, rocksdb::IOOptions(), nullptr)));
  }
  return StoreStatus(files->DeleteDir(path, rocksdb::IOOptions(), nullptr));
}

}  // namespace mnemon
