// SPDX-License-Identifier: MIT
#include "server/engine/session_journal.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <utility>

#include "base/out_of_memory.h"
#include "server/engine/engine_errors.h"
#include "server/engine/journal_writer.h"
#include "server/engine/session.h"
#include "server/engine/token_history.h"

namespace mnemon {
namespace {

// Moves one that waits to the end of a list. False: memory has run out, and whoever has
// it answers, with no lock held.
bool Enlist(std::vector<OnSynced>& list, OnSynced& waiter) try {
  list.emplace_back();
  list.back() = std::exchange(waiter, nullptr);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace

SessionJournal::SessionJournal(JournalWriter& writer, std::string id,
                               Durability durability, Stored stored)
    : writer_(writer),
      id_(std::move(id)),
      durability_(durability),
      sequence_(stored.sequence),
      folded_tokens_(stored.folded),
      entries_(stored.entries),
      entry_tokens_(stored.tokens),
      checkpoints_(std::move(stored.checkpoints)),
      in_store_(durability != Durability::kNone || !stored.snapshots.empty()) {
  for (StoredSnapshot& snapshot : stored.snapshots) {
    const int64_t tokens = snapshot.tokens;
    snapshots_.push_back({.snapshot = std::move(snapshot), .common = tokens});
  }
}

SessionJournal::~SessionJournal() {
  for (auto* const waiters : {&waiters_, &deleters_}) {
    for (const OnSynced& waiter : *waiters) {
      waiter(CatchOutOfMemory({}, [this] { return engine_errors::NotFound(id_); }));
    }
  }
}

void SessionJournal::NeedBase() { state_ = State::kNeedsBase; }

Durability SessionJournal::durability() const {
  std::lock_guard lock(mutex_);
  return durability_;
}

bool SessionJournal::SetDurability(Durability durability) {
  {
    std::lock_guard lock(mutex_);
    if (durability_ == durability || state_ == State::kDeleted) return false;
    if (durability_ == Durability::kNone) {
      DropSnapshotsLocked();
      NeedBaseLocked();
    }
    durability_ = durability;
    record_ = true;
    if (durability == Durability::kNone) {
      delete_ = true;
      unstoring_ = in_store_;
      DropHistoryLocked();
    }
  }
  Queue();
  return true;
}

bool SessionJournal::Restore(Durability before) {
  bool base = false;
  {
    std::lock_guard lock(mutex_);
    if (state_ == State::kDeleted) return false;
    if (durability_ != before && before == Durability::kNone) {
      // What the store may have got goes: once it is well, where a write has failed.
      delete_ = state_ != State::kFailed;
      unstoring_ = false;
      DropHistoryLocked();
      checkpoint_histories_.clear();
    } else if (durability_ != before && durability_ == Durability::kNone) {
      const bool taken = !std::exchange(delete_, false);
      // Of what has failed the writer asks for a base.
      base = state_ != State::kFailed;
      // Nothing is left in the store then.
      if (base && taken) DropSnapshotsLocked();
      // What has changed since then is in no entry.
      if (base) NeedBaseLocked();
      unstoring_ = false;
    }
    durability_ = before;
    record_ = before != Durability::kNone;
  }
  Queue();
  return base;
}

void SessionJournal::NeedBaseLocked() {
  state_ = State::kNeedsBase;
  copies_base_ = false;
  in_store_ = true;
  unstoring_ = false;
  DropHistoryLocked();
}

uint64_t SessionJournal::changes() const {
  std::lock_guard lock(mutex_);
  return changes_;
}

absl::Status SessionJournal::status() const {
  {
    std::lock_guard lock(mutex_);
    if (durability_ == Durability::kNone) return absl::OkStatus();
    if (state_ == State::kFailed) return failure_;
  }
  return writer_.status();
}

void SessionJournal::OnChange(const TokenHistory& history, int64_t kept,
                              int64_t size) noexcept {
  {
    std::lock_guard lock(mutex_);
    ++changes_;
    size_ = size;
    copy_common_ = std::min(copy_common_, kept);
    for (Kept& snapshot : snapshots_) snapshot.common = std::min(snapshot.common, kept);
    const bool based =
        state_ == State::kReady || (state_ == State::kNeedsBase && copies_base_);
    if (durability_ == Durability::kNone || !based) return;
    try {
      if (!history_) kept_ = history.size();
      const int64_t from = std::min(kept_, kept);
      const int64_t stays = kept - from;
      tokens_.resize(static_cast<size_t>(from < kept_ ? 0 : stays));
      kept_ = from;
      const size_t before = tokens_.size();
      tokens_.resize(before + static_cast<size_t>(size - kept));
      history.Read(kept, std::span(tokens_).subspan(before));
      history_ = true;
    } catch (const std::bad_alloc&) {
      // As after a write that was lost: a base holds all of it.
      DropHistoryLocked();
      state_ = State::kFailed;
      failure_ = OutOfMemoryError();
      unreported_ = true;
    }
  }
  Queue();
}

void SessionJournal::DropHistoryLocked() {
  history_ = false;
  tokens_.clear();
  fold_ = 0;
  fold_history_ = {};
}

void SessionJournal::DropSnapshotsLocked() {
  for (Kept& kept : snapshots_) dropped_.push_back(std::move(kept.snapshot.name));
  snapshots_.clear();
  for (StoredCheckpoint& checkpoint : checkpoints_) {
    dropped_.push_back(std::move(checkpoint.snapshot.name));
  }
  checkpoints_.clear();
  checkpoint_histories_.clear();
}

void SessionJournal::Attach(std::shared_ptr<TokenStream> stream) {
  {
    std::lock_guard lock(mutex_);
    stream_ = std::move(stream);
    finish_ = false;
    if (stream_ == nullptr) return;
    stream = WaitsLocked() ? nullptr : stream_;
  }
  if (stream == nullptr) return Queue();
  // It was opened when its tokens were to wait for the store.
  ReleaseAll(std::move(stream));
}

void SessionJournal::ReleaseAll(std::shared_ptr<TokenStream> stream) {
  constexpr auto kAll = std::numeric_limits<int64_t>::max();
  if (stream->Release(kAll, /*finish=*/true, std::chrono::steady_clock::now()) !=
      TokenStream::Notice::kNone) {
    writer_.callbacks_.Post(std::move(stream));
  }
}

void SessionJournal::EndTurn() noexcept {
  std::shared_ptr<TokenStream> ended;
  {
    std::lock_guard lock(mutex_);
    if (stream_ == nullptr) return;
    if (!WaitsLocked()) {
      ended = std::move(stream_);
      return;
    }
    finish_ = true;
  }
  Queue();
}

void SessionJournal::TouchRecord() noexcept {
  {
    std::lock_guard lock(mutex_);
    ++changes_;
    if (durability_ == Durability::kNone) return;
    record_ = true;
  }
  Queue();
}

absl::Status SessionJournal::EndLocked() const {
  if (state_ == State::kDeleted) return engine_errors::NotFound(id_);
  return state_ == State::kFailed && WaitsLocked() ? failure_ : absl::OkStatus();
}

bool SessionJournal::WaitsLocked() const {
  return durability_ != Durability::kNone || unstoring_;
}

void SessionJournal::Flush(WaiterKind kind, OnSynced on_synced) {
  on_synced.Watch(writer_.waiters_, kind);
  absl::Status status;
  {
    std::lock_guard lock(mutex_);
    status = EndLocked();
    if (status.ok() && WaitsLocked() && !Enlist(waiters_, on_synced)) {
      status = OutOfMemoryError();
    }
  }
  if (on_synced) return on_synced(status);
  Queue();
}

void SessionJournal::Delete(OnSynced on_synced) {
  if (on_synced) on_synced.Watch(writer_.waiters_, WaiterKind::kDelete);
  absl::Status status;
  {
    std::lock_guard lock(mutex_);
    if (state_ == State::kFailed) status = failure_;
    if (state_ != State::kDeleted && in_store_) {
      delete_ = true;
      if (on_synced && status.ok() && !Enlist(deleters_, on_synced)) {
        status = OutOfMemoryError();
      }
    }
    state_ = State::kDeleted;
    DropSnapshotsLocked();
    DropHistoryLocked();
  }
  if (on_synced) on_synced(status);
  Queue();
}

bool SessionJournal::TryDelete(std::optional<uint64_t> changes, OnSynced on_synced) {
  on_synced.Watch(writer_.waiters_, WaiterKind::kDelete);
  absl::Status status;
  bool changed = false;
  {
    std::lock_guard lock(mutex_);
    changed = changes && *changes != changes_;
    // From here on no change is acknowledged before the outcome is known.
    status = changed ? absl::AbortedError("changed") : EndLocked();
    if (status.ok() && !Enlist(deleters_, on_synced)) status = OutOfMemoryError();
    if (status.ok()) delete_ = deleting_ = true;
  }
  if (changed) {
    static_cast<void>(on_synced.Dismiss());
    return false;
  }
  if (on_synced) {
    on_synced(status);
  } else {
    Queue();
  }
  return true;
}

uint64_t SessionJournal::BeginSnapshot(bool base) {
  std::lock_guard lock(mutex_);
  copy_common_ = std::numeric_limits<int64_t>::max();
  if (base && state_ == State::kNeedsBase) {
    DropHistoryLocked();
    copies_base_ = true;
    // The base is an entry itself.
    sequence_ = std::max<uint64_t>(sequence_, 1);
  }
  return sequence_;
}

bool SessionJournal::PutSnapshot(MadeSnapshot made, bool base) {
  {
    std::lock_guard lock(mutex_);
    const bool wanted =
        base ? state_ == State::kNeedsBase && copies_base_ : state_ == State::kReady;
    if (!wanted || durability_ == Durability::kNone) return false;
    const size_t stay = base ? 0 : kSnapshots - 1;
    while (snapshots_.size() > stay) {
      dropped_.push_back(std::move(snapshots_.front().snapshot.name));
      snapshots_.erase(snapshots_.begin());
    }
    const auto tokens = static_cast<int64_t>(made.history.size());
    if (made.snapshot) {
      const int64_t common = std::min(tokens, copy_common_);
      snapshots_.push_back(
          {.snapshot = *std::move(made.snapshot), .common = common, .written = false});
    }
    const bool many =
        entries_ >= kFewEntries && entries_ + entry_tokens_ >= folded_tokens_;
    if (base || (many && made.sequence > 0)) {
      fold_ = made.sequence;
      fold_history_ = std::move(made.history);
      folded_tokens_ = tokens;
      entries_ = entry_tokens_ = 0;
    }
    record_ = true;
    if (base) {
      copies_base_ = false;
      state_ = State::kReady;
    }
  }
  Queue();
  return true;
}

void SessionJournal::BaseFailed(const absl::Status& status) {
  std::vector<OnSynced> waiters;
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::kNeedsBase) return;
    copies_base_ = false;
    state_ = State::kFailed;
    failure_ = status;
    unreported_ = true;
    DropHistoryLocked();
    waiters.swap(waiters_);
  }
  for (const OnSynced& waiter : waiters) waiter(status);
  Queue();
}

bool SessionJournal::PutCheckpoint(StoredCheckpoint checkpoint,
                                   std::vector<int32_t> history) {
  {
    std::lock_guard lock(mutex_);
    if (durability_ == Durability::kNone || state_ == State::kDeleted ||
        HasCheckpointLocked(checkpoint.id)) {
      return false;
    }
    checkpoints_.reserve(checkpoints_.size() + 1);
    checkpoint_histories_.push_back(
        {.id = checkpoint.id, .tokens = std::move(history)});
    checkpoints_.push_back(std::move(checkpoint));
    record_ = true;
  }
  Queue();
  return true;
}

void SessionJournal::DropCheckpoint(const std::string& id) {
  {
    std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(checkpoints_.begin(), checkpoints_.end(),
                     [&](const auto& checkpoint) { return checkpoint.id == id; });
    if (found == checkpoints_.end()) return;
    dropped_checkpoints_.reserve(dropped_checkpoints_.size() + 1);
    dropped_.push_back(std::move(found->snapshot.name));
    dropped_checkpoints_.push_back(id);
    checkpoints_.erase(found);
    std::erase_if(checkpoint_histories_,
                  [&](const CheckpointHistory& history) { return history.id == id; });
    record_ = true;
  }
  Queue();
}

std::optional<StoredSnapshot> SessionJournal::Usable(int64_t tokens) const {
  std::lock_guard lock(mutex_);
  if (durability_ == Durability::kNone) return std::nullopt;
  for (auto kept = snapshots_.rbegin(); kept != snapshots_.rend(); ++kept) {
    const int64_t computed = kept->snapshot.computed;
    if (kept->written && computed > 0 && computed <= kept->common &&
        computed < tokens) {
      return kept->snapshot;
    }
  }
  return std::nullopt;
}

int64_t SessionJournal::snapshot_tokens() const {
  std::lock_guard lock(mutex_);
  return snapshots_.empty() ? 0 : snapshots_.back().common;
}

void SessionJournal::SetSize(int64_t tokens) {
  std::lock_guard lock(mutex_);
  size_ = tokens;
}

bool SessionJournal::needs_base() const {
  std::lock_guard lock(mutex_);
  return state_ == State::kNeedsBase && durability_ != Durability::kNone;
}

bool SessionJournal::AllStored() const {
  std::lock_guard lock(mutex_);
  return state_ == State::kReady && durability_ != Durability::kNone && !delete_ &&
         !deleting_ && !history_ && fold_ == 0 && checkpoint_histories_.empty() &&
         waiters_.empty();
}

bool SessionJournal::IsQuiet() const {
  if (unsynced_ || wanted_ || !AllStored()) return false;
  std::lock_guard lock(mutex_);
  return !record_;
}

bool SessionJournal::HasCheckpoint(const std::string& id) const {
  std::lock_guard lock(mutex_);
  return durability_ != Durability::kNone && HasCheckpointLocked(id);
}

bool SessionJournal::HasCheckpointLocked(const std::string& id) const {
  return std::any_of(checkpoints_.begin(), checkpoints_.end(),
                     [&](const auto& checkpoint) { return checkpoint.id == id; });
}

std::string SessionJournal::SnapshotOfCheckpoint(const std::string& id) const {
  std::lock_guard lock(mutex_);
  for (const StoredCheckpoint& checkpoint : checkpoints_) {
    if (checkpoint.id == id) return checkpoint.snapshot.name;
  }
  return "";
}

SessionJournal::Stored SessionJournal::stored() const {
  std::lock_guard lock(mutex_);
  Stored stored{.sequence = sequence_,
                .folded = folded_tokens_,
                .entries = entries_,
                .tokens = entry_tokens_,
                .snapshots = {},
                .checkpoints = checkpoints_};
  for (const Kept& kept : snapshots_) stored.snapshots.push_back(kept.snapshot);
  return stored;
}

bool SessionJournal::in_store() const {
  std::lock_guard lock(mutex_);
  return in_store_;
}

bool SessionJournal::leaves_store() const {
  std::lock_guard lock(mutex_);
  return state_ == State::kDeleted || deleting_ || in_doubt_;
}

void SessionJournal::Forget(const std::string& snapshot) {
  {
    std::lock_guard lock(mutex_);
    if (std::erase_if(snapshots_, [&](const Kept& kept) {
          return kept.snapshot.name == snapshot;
        }) == 0) {
      return;
    }
    dropped_.push_back(snapshot);
    record_ = durability_ != Durability::kNone;
  }
  Queue();
}

void SessionJournal::Queue() noexcept { writer_.Queue(shared_from_this()); }

void ReleaseEndOf(TokenStream& stream, const absl::Status& status) {
  bool due =
      !status.ok() && stream.StopDelivery() && stream.Finish(status, std::nullopt);
  due =
      stream.Release(std::numeric_limits<int64_t>::max(), /*finish=*/true,
                     std::chrono::steady_clock::now()) != TokenStream::Notice::kNone ||
      due;
  if (due) stream.RunCallback();
}

void ReleaseWhenSynced(SessionJournal& journal,
                       const std::shared_ptr<TokenStream>& stream) {
  journal.Flush(WaiterKind::kRelease, [stream](const absl::Status& status) {
    ReleaseEndOf(*stream, status);
  });
}

}  // namespace mnemon
