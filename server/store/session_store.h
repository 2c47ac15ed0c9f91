// SPDX-License-Identifier: MIT
// A directory that keeps sessions across restarts: records, journals and histories of
// checkpoints as keys with values, and snapshots of states as files. The store does not
// interpret what it keeps.
//
// Keys and values are in two copies of one database (docs/store_format.md). A commit
// returns when both have it. What is damaged in one copy is read from the other, and
// the damaged copy is rebuilt while the store is in use. A snapshot is one file, since
// it can be computed again.
//
// After a power failure the store has a prefix of the commits, each of them whole, with
// all that was synced. Where both copies are damaged in the same place, the rest is
// served, and what is missing is reported: Scan names ranges, condition() counts
// commits.
//
// Only errors of Open carry a path. Reasons:
//   STORE_FULL       RESOURCE_EXHAUSTED: disk, quota or file size limit is reached
//   STORE_READ_ONLY  UNAVAILABLE: the file system is read-only
//   STORE_FAILED     UNAVAILABLE: reading, writing or syncing failed
//   STORE_DAMAGED    DATA_LOSS: neither copy has it whole
//   STORE_IN_USE     FAILED_PRECONDITION: the directory is open elsewhere (Open)
//   STORE_FORMAT     FAILED_PRECONDITION: the directory is not a store, or a newer one
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rocksdb {
class FileSystem;
}

namespace mnemon {

// The namespace of sessions whose callers have none.
inline constexpr std::string_view kDefaultNamespace = "default";

// A session's full name. Both parts are resource ids (base/resource_id.h).
struct SessionKey {
  std::string_view id = {};
  std::string_view space = kDefaultNamespace;

  auto operator<=>(const SessionKey&) const = default;
};

enum class StoreTable {
  kSessions,     // one record per session, without a name; begins with RecordExpiry
  kJournal,      // changes of a session's history, in order: the name is JournalName
  kCheckpoints,  // histories of checkpoints: the name has 1 to 255 bytes
  // Snapshots of a store of format 1, names of 1 to 255 bytes. Until FinishUpgrade, for
  // Get and kDeleteAll only.
  kSnapshotsOfFormat1,
};

// The first 8 bytes of a record: milliseconds since 1970, little endian; 0: never.
std::string RecordExpiry(int64_t unix_ms);
// The record after them.
std::string_view RecordText(std::string_view value);
// The name of a journal entry: 8 bytes, big endian, so that names sort as numbers.
std::string JournalName(uint64_t sequence);
// Its inverse; nullopt unless `name` has 8 bytes.
std::optional<uint64_t> JournalSequence(std::string_view name);

struct StoreChange {
  enum class Kind {
    kPut,
    kDelete,        // no error when there is none
    kDeleteAll,     // every key of the session in the table; `name` is empty
    kDeleteBefore,  // those with a smaller name than `name`
  };
  StoreTable table = StoreTable::kSessions;
  Kind kind = Kind::kPut;
  // The caller keeps what these view until Commit returns.
  std::string_view name = {};
  std::string_view value = {};  // of kPut
};

// The changes of one session: all of them, in order, or none.
struct SessionChanges {
  SessionKey session;
  std::vector<StoreChange> changes;
  // Set by Commit: why the changes of this session alone were not written.
  absl::Status status = absl::OkStatus();
};

// Keys of one table, in the order of their bytes.
struct StoreRange {
  std::optional<SessionKey> session = std::nullopt;  // absent: all sessions
  std::string_view from = {};  // the first name that takes part, with `session`
};

// Neither copy can read keys of sessions from `first` to `last`.
struct UnreadableRange {
  std::string first_space, first_id;  // empty: from the table's first session on
  std::string last_space, last_id;    // empty: to its last one
};

enum class Sync { kNo, kYes };

struct SessionStoreOptions {
  // Write buffers and block caches of both copies, at least 4 MiB. Indexes of open
  // files come on top, and for a while a commit that is larger than its part.
  int64_t memory_bytes = int64_t{96} << 20;
};

// For operators.
struct StoreCondition {
  int whole_copies = 2;  // copies that have every commit, 1 or 2; 0: not healthy
  // Commits that were synced and that neither copy has, as found by Open.
  uint64_t lost_commits = 0;
  // Gaps in logs that neither copy could fill, and ranges that neither can read.
  int64_t unreadable = 0;
  int64_t rebuilds = 0;  // of a copy, completed
  // What Open found of each copy: one of the texts below, or what is wrong with it.
  std::array<std::string, 2> found;
};
inline constexpr char kCopyWhole[] = "whole";
// After a kill or a power failure.
inline constexpr char kCopyBehind[] =
    "whole, but behind the other one: a start fills it";
inline constexpr char kCopyFilling[] = "filled in part: a start goes on with it";

// Blocking. Safe for concurrent use; commits are made one after the other.
class SessionStore {
 public:
  // The most that the changes of one session may have.
  static constexpr int64_t kMaxChangeBytes = int64_t{256} << 20;

  // No call may be in progress.
  virtual ~SessionStore() = default;

  // Writes the changes of all sessions, except those whose `status` it sets:
  // INVALID_ARGUMENT for a bad id or name, RESOURCE_EXHAUSTED with COMMIT_TOO_LARGE
  // above kMaxChangeBytes. With Sync::kYes they are durable on return, and so is every
  // commit that returned before this one began.
  //
  // After an error the store is not healthy. Whether this commit is in it is unknown
  // until Recover or the next Open; until then further commits get the same error
  // without a try, and reading goes on.
  virtual absl::Status Commit(std::span<SessionChanges> sessions, Sync sync) = 0;

  // Sees every commit that has returned. nullopt when there is no such key.
  virtual absl::StatusOr<std::optional<std::string>> Get(StoreTable table,
                                                         const SessionKey& session,
                                                         std::string_view name) = 0;

  // Calls `visit` for the keys of `range` as of one moment, until it returns false. The
  // views are valid during the call. `unreadable`, which may be null, is called where
  // keys are left out that neither copy can read. Both may call Get and Commit, not
  // Recover.
  using Visit = std::function<bool(const SessionKey& session, std::string_view name,
                                   std::string_view value)>;
  using Unreadable = std::function<void(const UnreadableRange& range)>;
  virtual absl::Status Scan(StoreTable table, const StoreRange& range,
                            const Visit& visit, const Unreadable& unreadable) = 0;

  // Keeps a snapshot under the returned name, which follows from its bytes, and counts
  // one reference until DropSnapshot; a file without references is removed. Call it
  // before the commit that names the snapshot. Failure leaves the store healthy.
  virtual absl::StatusOr<std::string> PutSnapshot(std::string_view bytes) = 0;
  // NOT_FOUND; DATA_LOSS, SNAPSHOT_DAMAGED: its bytes have changed.
  virtual absl::StatusOr<std::string> GetSnapshot(const std::string& name) = 0;
  // Call it after the commit that no longer names the snapshot.
  virtual void DropSnapshot(const std::string& name) = 0;
  // Replaces the counts by `names`, a name once for each reference. Other snapshots are
  // removed if `remove_others`. No call on snapshots may be in progress.
  virtual void CountSnapshots(const std::vector<std::string>& names,
                              bool remove_others) = 0;

  // False once neither copy took a commit, until Recover succeeds.
  virtual bool healthy() const = 0;

  // Makes an unhealthy store writable again, with all that was synced. First writes a
  // file of its own: if that fails, the store is as before. Then reads what the disk
  // has, as Open does, and drops what memory had of a failed write; if that fails,
  // reading fails too until a later Recover succeeds. Waits for calls in progress.
  virtual absl::Status Recover() = 0;

  // Whether the directory is of format 1, with one copy, until FinishUpgrade.
  virtual bool needs_upgrade() const = 0;
  // Drops the table kSnapshotsOfFormat1. REQUIRES: no record needs it any more.
  virtual absl::Status FinishUpgrade() = 0;

  // Rewrites all tables, which frees the bytes of deleted keys now instead of within a
  // day or so. Slow.
  virtual absl::Status Compact() = 0;

  // Waits until both copies have been compared and are whole. False: not by `seconds`,
  // or one cannot be.
  virtual bool AwaitWhole(int seconds) = 0;
  virtual StoreCondition condition() const = 0;

  // Write buffers, block caches and indexes in memory now.
  virtual int64_t memory_bytes() const = 0;
};

// Opens the store in `directory`, or creates one. The directory gets mode 0700 and its
// files 0600, whatever the umask; one that exists loses the rights of group and others
// if it belongs to this user. `directory` may be a symbolic link, no file in it may.
// STORE_IN_USE, with the process id: another process or another SessionStore of this
// one has it open; an owner that was killed is no obstacle. STORE_FORMAT: a newer
// format version, or other files and no store. STORE_DAMAGED: neither copy can be
// opened (RepairSessionStore may help). Other errors name the directory too.
absl::StatusOr<std::unique_ptr<SessionStore>> OpenSessionStore(
    const std::string& directory, const SessionStoreOptions& options = {});
// The same with copies and snapshots on a file system of the caller's, for tests.
absl::StatusOr<std::unique_ptr<SessionStore>> OpenSessionStoreOn(
    std::shared_ptr<rocksdb::FileSystem> files, const std::string& directory,
    const SessionStoreOptions& options);

// The same without a change to the directory: changes go to a temporary folder of links
// and new files, which is removed with the object. STORE_FORMAT where there is no
// store, or one of format 1.
absl::StatusOr<std::unique_ptr<SessionStore>> ViewSessionStore(
    const std::string& directory);

// Rebuilds a store of which neither copy is whole from all that can be read of both.
// Calls `say` with a line for each thing done. What cannot be read is moved to
// db/*.damaged. STORE_DAMAGED: nothing can be read.
absl::Status RepairSessionStore(const std::string& directory,
                                const std::function<void(const std::string&)>& say);

}  // namespace mnemon
