// SPDX-License-Identifier: MIT
// A directory in which sessions outlive the process: records, journals and the
// histories of checkpoints as keys with values, and snapshots of states as files. What
// they mean is their owner's business.
//
// Keys and values lie in two copies of one database (docs/store_format.md). A commit
// returns when both have it. What is damaged in one copy is read from the other, and
// the damaged copy is made anew while the store is in use. Snapshots lie in one file
// each: they can be computed again.
//
// A power failure takes what was not synced, from some commit on: what comes back is a
// prefix of the commits, each whole, with all that was synced. Where both copies are
// damaged in the same place, what can be read is served, and what is known to be
// missing is told: Scan names the ranges, condition() the commits.
//
// Errors of everything but Open carry no path. Reasons:
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
  kSessions,     // one record per session: the name is empty. A value begins with its
                 // expiry, RecordExpiry
  kJournal,      // changes of a session's history, in order: the name is JournalName
  kCheckpoints,  // histories of checkpoints: the name has 1 to 255 bytes
  // Snapshots of a store of format 1, the name has 1 to 255 bytes: Get and kDeleteAll
  // alone, until FinishUpgrade.
  kSnapshotsOfFormat1,
};

// The 8 bytes that a record begins with: milliseconds since 1970, little endian; 0:
// never.
std::string RecordExpiry(int64_t unix_ms);
// A record without them.
std::string_view RecordText(std::string_view value);
// The name of a journal's entry: 8 bytes, big endian, so that names sort as numbers.
std::string JournalName(uint64_t sequence);
// Its inverse; nullopt when `name` has not 8 bytes.
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
  // Views of what the caller keeps until Commit returns.
  std::string_view name = {};
  std::string_view value = {};  // of kPut
};

// The changes of one session: all of them, in order, or none.
struct SessionChanges {
  SessionKey session;
  std::vector<StoreChange> changes;
  // Set by Commit: why these alone were not written.
  absl::Status status = absl::OkStatus();
};

// Keys of one table, in the order of their bytes.
struct StoreRange {
  // Of this session alone; absent: of all sessions.
  std::optional<SessionKey> session = std::nullopt;
  // The first name that takes part, with `session`.
  std::string_view from = {};
};

// Keys that neither copy can read, among those of sessions from `first` to `last`.
struct UnreadableRange {
  std::string first_space, first_id;  // empty: from the first session of the table on
  std::string last_space, last_id;    // empty: to the last one
};

enum class Sync { kNo, kYes };

struct SessionStoreOptions {
  // Write buffers and block caches of both copies; a commit larger than its part goes
  // beyond for a while. At least 4 MiB.
  int64_t memory_bytes = int64_t{96} << 20;
  // Table files held open by each copy; each costs its index besides.
  int max_open_files = 256;
  // Of flushes and compactions together, in each copy.
  int64_t background_bytes_per_second = int64_t{128} << 20;
};

// For operators.
struct StoreCondition {
  // Copies that have every commit, 1 or 2.
  int whole_copies = 2;
  // Commits that were synced and that neither copy has: found by Open.
  uint64_t lost_commits = 0;
  // Gaps in logs that neither copy could fill, and ranges that neither can read.
  int64_t unreadable = 0;
  int64_t rebuilds = 0;  // of a copy, that have ended well
  // What Open has found of each copy: kCopyWhole, kCopyBehind, kCopyFilling, or what is
  // the matter with it.
  std::array<std::string, 2> found;
};
inline constexpr char kCopyWhole[] = "whole";
// As a kill or a power failure leaves it.
inline constexpr char kCopyBehind[] =
    "whole, but behind the other one: a start fills it";
inline constexpr char kCopyFilling[] = "filled in part: a start goes on with it";

// Blocking. Safe for concurrent use; commits are made one after the other.
class SessionStore {
 public:
  // Of one session's changes.
  static constexpr int64_t kMaxChangeBytes = int64_t{256} << 20;

  // No call may be in progress.
  virtual ~SessionStore() = default;

  // The changes of all sessions but those whose `status` tells why not:
  // INVALID_ARGUMENT for a bad id or name, RESOURCE_EXHAUSTED with COMMIT_TOO_LARGE
  // above kMaxChangeBytes. With Sync::kYes they are durable on return, and so is every
  // commit that returned before this one began.
  //
  // After an error the store is not healthy, and nothing of this commit counts: whether
  // it is there is not known until Recover or the next Open, and further commits get
  // the same error without a try. Reading goes on.
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

  // Keeps a snapshot; the name by which it is read follows from its bytes. Each success
  // counts until DropSnapshot; without a count the file goes. Call it before the commit
  // of what names it. Whether it was kept says nothing of the store's health.
  virtual absl::StatusOr<std::string> PutSnapshot(std::string_view bytes) = 0;
  // NOT_FOUND: it is not there; DATA_LOSS, SNAPSHOT_DAMAGED: its bytes are others.
  virtual absl::StatusOr<std::string> GetSnapshot(const std::string& name) = 0;
  // After the commit of what does not name it any more.
  virtual void DropSnapshot(const std::string& name) = 0;
  // Counts anew: what all records name, each as often as it is named. Others are
  // removed if `remove_others`. No call on snapshots may be in progress.
  virtual void CountSnapshots(const std::vector<std::string>& names,
                              bool remove_others) = 0;

  // False from the moment on at which neither copy took a commit, until Recover
  // succeeds.
  virtual bool healthy() const = 0;

  // Makes a store that is not healthy writable again, with all that was synced; OK when
  // it is healthy. First tries the disk with a file of its own: where that fails the
  // store is as before. Then reads what the disk has, as Open does; nothing that memory
  // had of a failed write is kept. When that fails, reading fails too until a later
  // Recover succeeds. Waits for calls in progress.
  virtual absl::Status Recover() = 0;

  // Whether the directory was written by format 1, and FinishUpgrade was not called.
  // Until then there is one copy.
  virtual bool needs_upgrade() const = 0;
  // Drops the table kSnapshotsOfFormat1. REQUIRES: no record needs it any more.
  virtual absl::Status FinishUpgrade() = 0;

  // Rewrites all tables: what was deleted gives its bytes back now instead of within a
  // day or so. Slow.
  virtual absl::Status Compact() = 0;

  // Waits until both copies have been compared and are whole. False: not by `seconds`,
  // or one cannot be.
  virtual bool AwaitWhole(int seconds) = 0;
  virtual StoreCondition condition() const = 0;

  // What the write buffers, block caches and indexes take now.
  virtual int64_t memory_bytes() const = 0;
};

// Opens the store in `directory`, which is created with mode 0700 if need be; its files
// have 0600, whatever the umask; one that exists loses the rights of group and others
// if it belongs to this user. Another process, or
// another SessionStore of this one, that has it open is STORE_IN_USE with its process
// id; one that was killed is no obstacle. A directory that has other files but no
// store, or a newer format version, is STORE_FORMAT. STORE_DAMAGED: neither copy can be
// opened (RepairStore may help). `directory` may be a symbolic link, no file in it may.
// Other errors name the directory too.
absl::StatusOr<std::unique_ptr<SessionStore>> OpenSessionStore(
    const std::string& directory, const SessionStoreOptions& options = {});

// The same of a store that stays as it is: what changes is kept in a temporary folder,
// as links and new files, and is gone with the object. STORE_FORMAT where there is no
// store, or one of format 1.
absl::StatusOr<std::unique_ptr<SessionStore>> ViewSessionStore(
    const std::string& directory);

// Makes a store anew of all that can be read of both copies, where neither is whole.
// Says line by line what was done. What cannot be read goes aside, to db/*.damaged.
// STORE_DAMAGED: there is nothing to read.
absl::Status RepairSessionStore(const std::string& directory,
                                const std::function<void(const std::string&)>& say);

}  // namespace mnemon
