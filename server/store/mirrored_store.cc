// SPDX-License-Identifier: MIT
// The primary copy has every commit and is read. The other copy is whole as well, or is
// behind, or is being filled, or is out. A thread, the keeper, makes it whole: it
// compares both from end to end after a start, fills what is behind, opens again what
// has failed, and rebuilds what is damaged. What the primary copy cannot read is read
// from the other where that is whole, or behind: then it has all that was acknowledged.
//
// Commits are numbered. The copy with the higher number has all that the other one has:
// an acknowledgement waits for both.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/out_of_memory.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/store/copies_reading.h"
#include "server/store/second_thread.h"
#include "server/store/session_store.h"
#include "server/store/snapshot_files.h"
#include "server/store/store_copy.h"
#include "server/store/store_directory.h"
#include "server/store/store_environment.h"
#include "server/store/store_key.h"
#include "server/store/store_opening.h"
#include "server/store/store_status.h"

namespace mnemon {
namespace {

// Between tries to repair a copy, and between pieces of a filling.
constexpr std::chrono::seconds kRetry{5};
constexpr std::chrono::milliseconds kPause{1};
// A failed copy is opened again at most so often, and then rebuilt unless it has become
// whole.
constexpr int kReopenTries = 60;

std::string NameOfCopy(int which) { return which == 0 ? "a" : "b"; }

// A reader-writer lock whose readers may lock it again while a writer waits, which
// std::shared_mutex does not allow.
class UseGate {
 public:
  void lock_shared() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !alone_; });
    ++users_;
  }
  void unlock_shared() {
    std::lock_guard lock(mutex_);
    if (--users_ == 0) changed_.notify_all();
  }
  // REQUIRES: this thread has not locked it.
  void lock() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !alone_ && users_ == 0; });
    alone_ = true;
  }
  void unlock() {
    std::lock_guard lock(mutex_);
    alone_ = false;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  int64_t users_ = 0;
  bool alone_ = false;
};

class MirroredStore final : public SessionStore {
 public:
  MirroredStore(StoreDirectory directory, std::shared_ptr<rocksdb::FileSystem> base,
                const SessionStoreOptions& options)
      : directory_(std::move(directory)),
        base_(std::move(base)),
        options_(options),
        snapshots_(MakeStoreFileSystem(base_), directory_.snapshots()),
        synced_(directory_.synced_number()) {}

  absl::Status Start() {
    MNEMON_RETURN_IF_ERROR(OpenCopies());
    keeper_ = std::thread([this] { Keep(); });
    return absl::OkStatus();
  }

  ~MirroredStore() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (keeper_.joinable()) keeper_.join();
    if (copies_[0] == nullptr && copies_[1] == nullptr) return;
    std::lock_guard lock(commit_);
    bool synced = healthy();
    for (const auto& copy : copies_) {
      if (copy != nullptr && copy->status().ok()) {
        synced = copy->SyncLog().ok() && synced;
      }
    }
    if (synced) synced_.Write(last_);
  }

  absl::Status Commit(std::span<SessionChanges> sessions, Sync sync) override {
    for (SessionChanges& session : sessions) session.status = CheckChanges(session);
    const std::shared_lock use(gate_);
    std::lock_guard lock(commit_);
    MNEMON_RETURN_IF_ERROR(failure());
    const Standing now = standing();
    const uint64_t number = ++last_;
    absl::Status first, second;
    StoreCopy& one = *copies_[now.primary];
    const auto write_one = [&] { first = one.Write(sessions, number, sync); };
    if (now.other == Other::kOut) {
      write_one();
    } else {
      StoreCopy& two = *copies_[1 - now.primary];
      const auto write_two = [&] { second = two.Write(sessions, number, sync); };
      if (sync == Sync::kYes) {
        second_thread_.RunBoth(write_one, write_two);
      } else {
        write_one();
        write_two();
      }
    }
    const bool both = first.ok() && second.ok();
    const absl::Status status =
        both ? absl::OkStatus() : AfterFailure(now, first, second);
    if (status.ok() && sync == Sync::kYes) synced_.Write(number);
    return status;
  }

  absl::StatusOr<std::optional<std::string>> Get(StoreTable table,
                                                 const SessionKey& session,
                                                 std::string_view name) override {
    using Result = absl::StatusOr<std::optional<std::string>>;
    return CatchOutOfMemory("a stored value", [&]() -> Result {
      MNEMON_RETURN_IF_ERROR(CheckStoreKey(table, session, name));
      const std::shared_lock use(gate_);
      const std::string key = StoreKey(table, session, name);
      rocksdb::Status status;
      for (const int which : ReadableCopies()) {
        std::string value;
        status = copies_[which]->Get(table, key, value);
        if (status.IsNotFound()) return std::nullopt;
        if (status.ok()) return value;
        if (!IsDamage(status)) break;
        NoteDamage(which);
      }
      if (!status.ok()) return StoreStatus(status);
      return failure();
    });
  }

  absl::Status Scan(StoreTable table, const StoreRange& range, const Visit& visit,
                    const Unreadable& unreadable) override {
    return CatchOutOfMemory("a scan of the store", [&]() -> absl::Status {
      StoreKeySpan span = AllStoreKeys();
      if (range.session) {
        MNEMON_RETURN_IF_ERROR(CheckSessionKey(*range.session));
        span = StoreKeysOf(table, *range.session);
        span.begin += range.from;
      }
      const std::shared_lock use(gate_);
      const std::vector<int> which = ReadableCopies();
      if (which.empty()) return failure();
      std::vector<StoreCopy*> copies;
      for (const int one : which) copies.push_back(copies_[one].get());
      return ScanCopies(
          copies, table, std::move(span), visit,
          [&](const UnreadableRange& lost) {
            {
              std::lock_guard lock(mutex_);
              ++condition_.unreadable;
            }
            if (unreadable) unreadable(lost);
          },
          [&](size_t index) { NoteDamage(which[index]); });
    });
  }

  absl::StatusOr<std::string> PutSnapshot(std::string_view bytes) override {
    return CatchOutOfMemory("a snapshot", [&] { return snapshots_.Put(bytes); });
  }
  absl::StatusOr<std::string> GetSnapshot(const std::string& name) override {
    return snapshots_.Get(name);
  }
  void DropSnapshot(const std::string& name) override { snapshots_.Drop(name); }
  void CountSnapshots(const std::vector<std::string>& names,
                      bool remove_others) override {
    snapshots_.Count(names, remove_others);
  }

  bool healthy() const override { return failure().ok(); }

  absl::Status Recover() override {
    return CatchOutOfMemory("the session store", [&]() -> absl::Status {
      std::lock_guard recovery(recovery_);
      if (healthy()) return absl::OkStatus();
      MNEMON_RETURN_IF_ERROR(ProbeDisk(PlaceOf(standing().primary)));
      const std::lock_guard alone(gate_);
      for (auto& copy : copies_) copy.reset();
      const absl::Status status = OpenCopies();
      std::lock_guard lock(mutex_);
      failure_ = status;
      changed_.notify_all();
      return status;
    });
  }

  bool needs_upgrade() const override {
    std::lock_guard lock(mutex_);
    return format_1_;
  }

  absl::Status FinishUpgrade() override {
    return CatchOutOfMemory("the session store", [&]() -> absl::Status {
      {
        const std::lock_guard alone(gate_);
        std::lock_guard commit(commit_);
        // Before the old table goes, what has replaced it is durable. An open of the
        // new format drops that table, too.
        MNEMON_RETURN_IF_ERROR(copies_[0]->SyncLog());
        MNEMON_RETURN_IF_ERROR(directory_.Finish());
        MNEMON_RETURN_IF_ERROR(copies_[0]->DropFormat1());
      }
      std::lock_guard lock(mutex_);
      format_1_ = false;
      changed_.notify_all();
      return absl::OkStatus();
    });
  }

  absl::Status Compact() override {
    return CatchOutOfMemory("a compaction", [&]() -> absl::Status {
      const std::shared_lock use(gate_);
      MNEMON_RETURN_IF_ERROR(failure());
      for (const int which : ReadableCopies()) {
        MNEMON_RETURN_IF_ERROR(copies_[which]->Compact());
      }
      return absl::OkStatus();
    });
  }

  bool AwaitWhole(int seconds) override {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(seconds),
                      [&] { return stopping_ || given_up_ || WholeLocked(); });
    return WholeLocked();
  }

  StoreCondition condition() const override {
    std::lock_guard lock(mutex_);
    StoreCondition condition = condition_;
    condition.whole_copies = !failure_.ok() ? 0 : standing_.BothWhole() ? 2 : 1;
    return condition;
  }

  int64_t memory_bytes() const override {
    const std::shared_lock use(gate_);
    int64_t bytes = 0;
    for (const auto& copy : copies_) {
      if (copy != nullptr) bytes += copy->memory_bytes();
    }
    return bytes;
  }

 private:
  // The copy that is not the primary one.
  enum class Other {
    kOut,      // it takes no commits
    kFilling,  // it takes them, and lacks others
    kBehind,   // the same, but those that it lacks were not acknowledged
    kWhole,
  };

  struct Standing {
    int primary = 0;
    Other other = Other::kOut;
    std::array<bool, 2> damaged{};  // found by reading

    bool BothWhole() const {
      return other == Other::kWhole && !damaged[0] && !damaged[1];
    }
  };

  Standing standing() const {
    std::lock_guard lock(mutex_);
    return standing_;
  }

  absl::Status failure() const {
    std::lock_guard lock(mutex_);
    return failure_;
  }

  StoreCopy::Place PlaceOf(int which) const {
    return {.files = base_,
            .path = directory_.copy(which),
            .id = directory_.id(),
            .options = options_};
  }

  // REQUIRES: nobody else uses the copies.
  absl::Status OpenCopies() {
    const bool format_1 = directory_.format() == 1;
    MNEMON_ASSIGN_OR_RETURN(
        OpenedCopies opened,
        OpenStoreCopies({PlaceOf(0), PlaceOf(1)}, {.created = directory_.created(),
                                                   .format_1 = format_1,
                                                   .synced = synced_.Read()}));
    if (!format_1 && !directory_.created()) {
      MNEMON_RETURN_IF_ERROR(directory_.Finish());
    }
    copies_ = std::move(opened.copies);
    last_ = opened.last;
    std::lock_guard lock(mutex_);
    const StoreCopy* const other = copies_[1 - opened.primary].get();
    standing_ = {.primary = opened.primary,
                 .other = other == nullptr ? Other::kOut
                          : opened.equal   ? Other::kWhole
                          : other->extent() == StoreCopy::Extent::kBehind
                              ? Other::kBehind
                              : Other::kFilling};
    compared_ = false;
    given_up_ = false;
    format_1_ = format_1;
    condition_.lost_commits += opened.lost;
    condition_.unreadable += opened.gaps;
    condition_.found = opened.found;
    return absl::OkStatus();
  }

  // REQUIRES: commit_ is held.
  absl::Status AfterFailure(const Standing& before, const absl::Status& first,
                            const absl::Status& second) {
    std::lock_guard lock(mutex_);
    const bool other_has_it = before.other == Other::kWhole && second.ok();
    if (!first.ok() && !other_has_it) {
      failure_ = first;
      return failure_;
    }
    // One of them goes on alone.
    const int out = first.ok() ? 1 - before.primary : before.primary;
    LogEvent(LogLevel::kError, "store_copy_failed", {{"copy", NameOfCopy(out)}});
    standing_.primary = 1 - out;
    standing_.other = Other::kOut;
    changed_.notify_all();
    return absl::OkStatus();
  }

  // The copies that have all that was acknowledged, the primary one first.
  std::vector<int> ReadableCopies() const {
    const auto [primary, other, damaged] = standing();
    std::vector<int> copies;
    if (copies_[primary] != nullptr) copies.push_back(primary);
    if (copies_[1 - primary] != nullptr &&
        (other == Other::kWhole || other == Other::kBehind)) {
      copies.push_back(1 - primary);
    }
    return copies;
  }

  void NoteDamage(int which) {
    std::lock_guard lock(mutex_);
    if (std::exchange(standing_.damaged[which], true)) return;
    LogEvent(LogLevel::kError, "store_copy_damaged", {{"copy", NameOfCopy(which)}});
    changed_.notify_all();
  }

  bool WholeLocked() const {
    return failure_.ok() && compared_ && standing_.BothWhole();
  }

  // The keeper's thread.
  void Keep() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (!failure_.ok() || format_1_ || given_up_ || WholeLocked()) {
        changed_.wait(lock);
        continue;
      }
      lock.unlock();
      const absl::Status kept =
          CatchOutOfMemory("the session store", [&] { return MakeWhole(); });
      lock.lock();
      if (kept.ok()) continue;
      changed_.wait_for(lock, kRetry, [&] { return stopping_; });
    }
  }

  // Takes one step towards two whole copies; not OK: try again later.
  absl::Status MakeWhole() {
    const auto [primary, other, damaged] = standing();
    if (damaged[primary]) {
      if (other == Other::kWhole && !damaged[1 - primary]) {
        std::lock_guard commit(commit_);
        std::lock_guard lock(mutex_);
        if (standing_.other == Other::kWhole) standing_.primary = 1 - primary;
        return absl::OkStatus();
      }
      // A damaged one cannot fill the other, unless that can stand in.
      if (other != Other::kBehind || damaged[1 - primary]) return GiveUp();
    }
    if (damaged[1 - primary]) return Remake(1 - primary, /*damaged=*/true);
    if (other == Other::kOut) return Remake(1 - primary, /*damaged=*/false);
    return CompareCopies(primary, other);
  }

  absl::Status GiveUp() {
    LogEvent(LogLevel::kError, "store_copies_damaged",
             {{"detail", std::string("both copies of the session store are damaged; "
                                     "stop the server and run it with --repair")}});
    std::lock_guard lock(mutex_);
    given_up_ = true;
    changed_.notify_all();
    return absl::OkStatus();
  }

  // Opens a failed copy again, or rebuilds it, to be filled.
  absl::Status Remake(int which, bool damaged) {
    std::lock_guard recovery(recovery_);
    {
      std::lock_guard commit(commit_);
      std::lock_guard lock(mutex_);
      if (!failure_.ok() || standing_.primary == which) return absl::OkStatus();
      standing_.other = Other::kOut;
    }
    const StoreCopy::Place place = PlaceOf(which);
    {
      const std::lock_guard alone(gate_);
      copies_[which].reset();
    }
    std::unique_ptr<StoreCopy> made;
    if (!damaged && ++reopen_tries_ < kReopenTries) {
      if (reopen_tries_ > 1) {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, kRetry, [&] { return stopping_; })) {
          return absl::OkStatus();
        }
      }
      absl::StatusOr<std::unique_ptr<StoreCopy>> reopened = ReopenStoreCopy(place);
      if (absl::IsResourceExhausted(reopened.status())) --reopen_tries_;
      MNEMON_ASSIGN_OR_RETURN(made, std::move(reopened));
    }
    if (made == nullptr) {
      LogEvent(LogLevel::kWarning, "store_copy_rebuilt", {{"copy", NameOfCopy(which)}});
      MNEMON_RETURN_IF_ERROR(StoreCopy::Wipe(place));
      MNEMON_ASSIGN_OR_RETURN(made, StoreCopy::Open(place, {.create = true}));
    }
    MNEMON_RETURN_IF_ERROR(made->SetExtent(StoreCopy::Extent::kPart));
    {
      const std::lock_guard alone(gate_);
      copies_[which] = std::move(made);
    }
    std::lock_guard commit(commit_);
    std::lock_guard lock(mutex_);
    standing_.damaged[which] = false;
    if (failure_.ok() && standing_.primary != which) standing_.other = Other::kFilling;
    return absl::OkStatus();
  }

  // Between commits, piece by piece.
  absl::Status CompareCopies(int primary, Other other) {
    const std::shared_lock use(gate_);
    const bool stands_in = other == Other::kBehind;
    StoreComparison comparison(*copies_[primary], *copies_[1 - primary], stands_in);
    while (true) {
      bool stuck = false;
      {
        std::lock_guard commit(commit_);
        {
          std::lock_guard lock(mutex_);
          const auto& [now_primary, now_other, damaged] = standing_;
          if (stopping_ || !failure_.ok() || now_primary != primary ||
              now_other != other || damaged[1 - primary] ||
              (damaged[primary] && !stands_in)) {
            return absl::OkStatus();
          }
        }
        using Outcome = StoreComparison::Outcome;
        const Outcome outcome = comparison.Step();
        if (outcome == Outcome::kDone) {
          return EndComparison(primary, other, comparison.differences());
        }
        if (outcome == Outcome::kFailed) {
          std::lock_guard lock(mutex_);
          if (!copies_[1 - primary]->status().ok()) standing_.other = Other::kOut;
          return comparison.status();
        }
        stuck = outcome == Outcome::kStuck;
        if (stuck || outcome == Outcome::kFirstDamaged) NoteDamage(primary);
        if (outcome == Outcome::kSecondDamaged) NoteDamage(1 - primary);
      }
      if (stuck) comparison.Skip();
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kPause, [&] { return stopping_; });
    }
  }

  // REQUIRES: commit_ is held.
  absl::Status EndComparison(int primary, Other other, int64_t differences) {
    StoreCopy& filled = *copies_[1 - primary];
    absl::Status status = filled.Write({}, last_, Sync::kYes);
    if (status.ok() && filled.extent() != StoreCopy::Extent::kWhole) {
      status = filled.SetExtent(StoreCopy::Extent::kWhole);
    }
    std::lock_guard lock(mutex_);
    if (!status.ok()) {
      standing_.other = Other::kOut;
      return status;
    }
    if (other != Other::kWhole || differences > 0) {
      ++condition_.rebuilds;
      LogEvent(LogLevel::kInfo, "store_copy_whole",
               {{"copy", NameOfCopy(1 - primary)}, {"changes", differences}});
    }
    reopen_tries_ = 0;
    standing_.other = Other::kWhole;
    compared_ = true;
    changed_.notify_all();
    return absl::OkStatus();
  }

  StoreDirectory directory_;  // changed with gate_ locked alone
  const std::shared_ptr<rocksdb::FileSystem> base_;
  const SessionStoreOptions options_;
  SnapshotFiles snapshots_;
  SecondThread second_thread_;  // of commits
  std::mutex recovery_;         // copies are opened by one thread at a time
  mutable UseGate gate_;
  // Replaced with gate_ locked alone; null: it could not be opened.
  std::array<std::unique_ptr<StoreCopy>, 2> copies_;

  // Held by a commit, or a piece of a comparison: what both copies have does not change
  // meanwhile. Guards what follows. Taken after gate_ and before mutex_.
  std::mutex commit_;
  SyncedNumber synced_;
  uint64_t last_ = 0;  // number of the newest commit

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Standing standing_;
  bool compared_ = false;  // both were read from end to end
  bool given_up_ = false;  // both are damaged
  bool format_1_ = false;
  bool stopping_ = false;
  absl::Status failure_;
  StoreCondition condition_;

  int reopen_tries_ = 0;  // the keeper's
  std::thread keeper_;    // last: it uses the others
};

using OpenedStore = absl::StatusOr<std::unique_ptr<SessionStore>>;

// `open`: StoreDirectory::Open or View.
template <class OpenDirectory>
OpenedStore OpenMirroredStore(OpenDirectory open, const std::string& directory,
                              std::shared_ptr<rocksdb::FileSystem> files,
                              const SessionStoreOptions& options) {
  return CatchOutOfMemory("the session store", [&]() -> OpenedStore {
    MNEMON_ASSIGN_OR_RETURN(StoreDirectory owned, open(directory));
    auto store = std::make_unique<MirroredStore>(std::move(owned), files, options);
    if (absl::Status status = store->Start(); !status.ok()) {
      return Annotated(status, StrCat("cannot open ", Quoted(directory)));
    }
    return store;
  });
}

}  // namespace

OpenedStore OpenSessionStoreOn(std::shared_ptr<rocksdb::FileSystem> files,
                               const std::string& directory,
                               const SessionStoreOptions& options) {
  return OpenMirroredStore(StoreDirectory::Open, directory, std::move(files), options);
}

OpenedStore OpenSessionStore(const std::string& directory,
                             const SessionStoreOptions& options) {
  return OpenSessionStoreOn(rocksdb::FileSystem::Default(), directory, options);
}

OpenedStore ViewSessionStore(const std::string& directory) {
  return OpenMirroredStore(StoreDirectory::View, directory,
                           rocksdb::FileSystem::Default(), {});
}

}  // namespace mnemon
