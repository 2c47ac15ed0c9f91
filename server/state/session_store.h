// SPDX-License-Identifier: MIT
// A directory in which sessions outlive the process: records, journals and snapshots as
// keys with values, on RocksDB. What they mean is their owner's business.
//
// Damage is told from loss. A power failure takes what was not synced, from some commit
// on: what comes back is a prefix of the commits, each whole, with all that was synced.
// Anything else that is missing or altered is DATA_LOSS, and then nothing is changed.
// The one exception cannot be seen: the newest commits, when they alone are torn off
// the end and no later one vouches for them.
//
// Errors of everything but Open carry no path. Reasons:
//   STORE_FULL       RESOURCE_EXHAUSTED: disk, quota or file size limit is reached
//   STORE_READ_ONLY  UNAVAILABLE: the file system is read-only
//   STORE_FAILED     UNAVAILABLE: reading, writing or syncing failed
//   STORE_DAMAGED    DATA_LOSS: a checksum is wrong, or synced bytes are missing
//   STORE_IN_USE     FAILED_PRECONDITION: the directory is open elsewhere (Open)
//   STORE_FORMAT     FAILED_PRECONDITION: the directory is not a store, or a newer one
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mnemon {

// A key is a session's id (base/resource_id.h) and a name.
enum class StoreTable {
  kSessions,   // one record per session: the name is empty. A value begins with its
               // expiry, RecordExpiry
  kJournal,    // changes of a session's history, in order: the name is JournalName
  kSnapshots,  // blobs of up to kMaxCommitBytes: the name has 1 to 255 bytes
};

// The 8 bytes that a record begins with: milliseconds since 1970, little endian; 0:
// never.
std::string RecordExpiry(int64_t unix_ms);
// Of a record; 0, never, when it is too short to have one.
int64_t ExpiryOfRecord(std::string_view value);
// The name of a journal's entry: 8 bytes, big endian, so that names sort as numbers.
std::string JournalName(uint64_t sequence);
// Its inverse; nullopt when `name` has not 8 bytes.
std::optional<uint64_t> JournalSequence(std::string_view name);

struct StoreChange {
  enum class Kind {
    kPut,
    kDelete,     // no error when there is none
    kDeleteAll,  // every key of `id` in the table; `name` is empty
  };
  StoreTable table = StoreTable::kSessions;
  Kind kind = Kind::kPut;
  // Views of what the caller keeps until Commit returns.
  std::string_view id = {};
  std::string_view name = {};
  std::string_view value = {};  // of kPut
};

// Keys of one table, in the order of their bytes.
struct StoreRange {
  // Of this session alone; empty: of all sessions.
  std::string_view id = {};
  // The first name, or for all sessions the first id, that takes part.
  std::string_view from = {};
};

enum class Sync { kNo, kYes };

struct SessionStoreOptions {
  // Write buffers and block cache, half each; a commit larger than its half goes beyond
  // for a while. At least 4 MiB.
  int64_t memory_bytes = int64_t{96} << 20;
  // Table files held open; each costs its index besides.
  int max_open_files = 256;
  // Of flushes and compactions together.
  int64_t background_bytes_per_second = int64_t{128} << 20;
};

// Blocking. Safe for concurrent use.
class SessionStore {
 public:
  static constexpr int64_t kMaxCommitBytes = int64_t{256} << 20;

  // No call may be in progress.
  virtual ~SessionStore() = default;

  // All changes, in order, or none. With Sync::kYes they are durable on return, and so
  // is every commit that returned before this one began; commits of several threads
  // share an fsync. INVALID_ARGUMENT for a bad id or name, RESOURCE_EXHAUSTED with
  // COMMIT_TOO_LARGE above kMaxCommitBytes: nothing is written, the store stays
  // healthy.
  //
  // After any other error the store is not healthy: whether this commit is there is not
  // known until Recover or the next Open, and further commits get the same error
  // without a try. Reading goes on.
  virtual absl::Status Commit(std::span<const StoreChange> changes, Sync sync) = 0;

  // Sees every commit that has returned. nullopt when there is no such key.
  virtual absl::StatusOr<std::optional<std::string>> Get(StoreTable table,
                                                         std::string_view id,
                                                         std::string_view name) = 0;

  // Calls `visit` for the keys of `range` as of one moment, until it returns false. The
  // views are valid during the call. `visit` may call Get and Commit, not Recover.
  using Visit = std::function<bool(std::string_view id, std::string_view name,
                                   std::string_view value)>;
  virtual absl::Status Scan(StoreTable table, const StoreRange& range,
                            const Visit& visit) = 0;

  // False from a failed commit, flush or compaction on, until Recover succeeds.
  virtual bool healthy() const = 0;

  // Makes a store that is not healthy writable again, with all that was synced; OK when
  // it is healthy. First tries the disk with a file of its own: where that fails the
  // store is as before. Then reads what the disk has, as Open does; nothing that memory
  // had of a failed write is kept. When that fails, reading fails too until a later
  // Recover succeeds. Waits for calls in progress.
  virtual absl::Status Recover() = 0;

  // Lets compaction drop what is dead: the keys of every id for which `live` is false,
  // of kSessions only when the record has expired by the wall clock too. Before this
  // call nothing is dropped, nor behind one with null. `live` is called from background
  // threads and must not block or call the store. Waits for a call in progress of the
  // `live` before, which is not called any more then.
  //
  // This is safe under one rule: `live(id)` is true from before the first commit of a
  // key of `id` until after the commit that deletes its last one. For compaction reads
  // only what was committed before it asks: a key that it sees of an id that is not
  // live has no owner any more. So the owner reads all records before it calls this.
  virtual void SetLive(std::function<bool(std::string_view id)> live) = 0;

  // Rewrites all tables: what was deleted or is dead gives its bytes back now instead
  // of within a day or so. Slow.
  virtual absl::Status Compact() = 0;

  // What the write buffers, block cache and indexes take now.
  virtual int64_t memory_bytes() const = 0;
};

// Opens the store in `directory`, which is created with mode 0700 if need be; its files
// have 0600, whatever the umask. Another process, or another SessionStore of this one,
// that has it open is STORE_IN_USE with its process id; one that was killed is no
// obstacle. A directory that has other files but no store, or a newer format version,
// is STORE_FORMAT. `directory` may be a symbolic link, no file in it may. Other errors
// name the directory too.
absl::StatusOr<std::unique_ptr<SessionStore>> OpenSessionStore(
    const std::string& directory, const SessionStoreOptions& options = {});

}  // namespace mnemon
