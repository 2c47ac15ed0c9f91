// SPDX-License-Identifier: MIT
#include "server/engine/session_journal.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "server/engine/journal_writer.h"
#include "server/engine/session.h"
#include "server/engine/token_history.h"

namespace mnemon {
namespace {

// As many as a stream holds back: what usually comes between two writes.
constexpr size_t kReserved = TokenStream::kCapacity;

}  // namespace

SessionJournal::SessionJournal(JournalWriter& writer, std::string id,
                               Durability durability, Stored stored)
    : writer_(writer),
      id_(std::move(id)),
      durability_(durability),
      oldest_(stored.oldest),
      sequence_(stored.sequence),
      checkpoints_(std::move(stored.checkpoints)) {
  for (StoredSnapshot& snapshot : stored.snapshots) {
    const int64_t tokens = snapshot.tokens;
    snapshots_.push_back({.snapshot = std::move(snapshot), .common = tokens});
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
      state_ = State::kNeedsBase;
      DropHistoryLocked();
    }
    durability_ = durability;
    record_ = true;
    if (durability == Durability::kNone) {
      delete_ = true;
      snapshots_.clear();
      checkpoints_.clear();
      blobs_.clear();
      DropHistoryLocked();
    }
  }
  Queue();
  return true;
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
}

void SessionJournal::Attach(std::shared_ptr<TokenStream> stream) {
  {
    std::lock_guard lock(mutex_);
    stream_ = std::move(stream);
    finish_ = false;
    if (stream_ == nullptr || durability_ == Durability::kNone) return;
  }
  Queue();
}

void SessionJournal::EndTurn() noexcept {
  {
    std::lock_guard lock(mutex_);
    if (stream_ == nullptr || durability_ == Durability::kNone) return;
    finish_ = true;
  }
  Queue();
}

void SessionJournal::TouchRecord() noexcept {
  {
    std::lock_guard lock(mutex_);
    if (durability_ == Durability::kNone) return;
    record_ = true;
  }
  Queue();
}

void SessionJournal::Flush(OnSynced on_synced) {
  absl::Status status;
  {
    std::lock_guard lock(mutex_);
    if (durability_ != Durability::kNone || delete_) {
      if (state_ != State::kFailed) {
        waiters_.push_back(std::move(on_synced));
      } else {
        status = failure_;
      }
    }
  }
  if (on_synced) return on_synced(status);
  Queue();
}

void SessionJournal::Delete(OnSynced on_synced) {
  absl::Status status;
  {
    std::lock_guard lock(mutex_);
    const bool stored = durability_ != Durability::kNone || !snapshots_.empty();
    status = state_ == State::kFailed ? failure_ : absl::OkStatus();
    if (state_ != State::kDeleted && stored) {
      delete_ = true;
      if (on_synced && status.ok()) {
        waiters_.push_back(std::exchange(on_synced, nullptr));
      }
    }
    state_ = status.ok() ? State::kDeleted : state_;
    DropHistoryLocked();
  }
  if (on_synced) on_synced(status);
  Queue();
}

uint64_t SessionJournal::BeginSnapshot(bool base) {
  std::lock_guard lock(mutex_);
  copy_common_ = std::numeric_limits<int64_t>::max();
  if (base && state_ == State::kNeedsBase) {
    DropHistoryLocked();
    copies_base_ = true;
  }
  return sequence_;
}

void SessionJournal::PutSnapshot(StoredSnapshot snapshot, std::string bytes,
                                 bool base) {
  {
    std::lock_guard lock(mutex_);
    const bool wanted =
        base ? state_ == State::kNeedsBase && copies_base_ : state_ == State::kReady;
    if (!wanted) return;
    // What is older than the ones that stay serves nobody.
    const size_t stay = base ? 0 : kSnapshots - 1;
    while (snapshots_.size() > stay) {
      dropped_.push_back(std::move(snapshots_.front().snapshot.name));
      snapshots_.erase(snapshots_.begin());
    }
    const uint64_t needed = snapshots_.empty() ? (base ? snapshot.sequence : 0)
                                               : snapshots_.front().snapshot.sequence;
    drop_end_ = std::max(drop_end_, needed + 1);
    blobs_.push_back({.name = snapshot.name, .bytes = std::move(bytes)});
    const int64_t common = std::min(snapshot.tokens, copy_common_);
    snapshots_.push_back(
        {.snapshot = std::move(snapshot), .common = common, .written = false});
    record_ = true;
    if (base) {
      copies_base_ = false;
      state_ = State::kReady;
    }
  }
  Queue();
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

void SessionJournal::PutCheckpoint(StoredCheckpoint checkpoint, std::string bytes) {
  {
    std::lock_guard lock(mutex_);
    if (durability_ == Durability::kNone || state_ == State::kDeleted) return;
    blobs_.push_back({.name = checkpoint.snapshot.name, .bytes = std::move(bytes)});
    checkpoints_.push_back(std::move(checkpoint));
    record_ = true;
  }
  Queue();
}

std::optional<StoredSnapshot> SessionJournal::Usable(int64_t tokens) const {
  std::lock_guard lock(mutex_);
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
  return state_ == State::kNeedsBase;
}

bool SessionJournal::AllStored() const {
  std::lock_guard lock(mutex_);
  return state_ == State::kReady && durability_ != Durability::kNone && !delete_ &&
         !history_ && blobs_.empty() && dropped_.empty() && waiters_.empty();
}

bool SessionJournal::HasSnapshot(const std::string& name) const {
  std::lock_guard lock(mutex_);
  return std::any_of(snapshots_.begin(), snapshots_.end(),
                     [&](const Kept& kept) { return kept.snapshot.name == name; });
}

bool SessionJournal::HasCheckpoint(const std::string& id) const {
  std::lock_guard lock(mutex_);
  return std::any_of(checkpoints_.begin(), checkpoints_.end(),
                     [&](const auto& checkpoint) { return checkpoint.id == id; });
}

SessionJournal::Stored SessionJournal::stored() const {
  std::lock_guard lock(mutex_);
  Stored stored{.oldest = oldest_,
                .sequence = sequence_,
                .snapshots = {},
                .checkpoints = checkpoints_};
  for (const Kept& kept : snapshots_) stored.snapshots.push_back(kept.snapshot);
  return stored;
}

void SessionJournal::Forget(const std::string& snapshot) {
  std::lock_guard lock(mutex_);
  std::erase_if(snapshots_,
                [&](const Kept& kept) { return kept.snapshot.name == snapshot; });
}

void SessionJournal::Queue() noexcept { writer_.Queue(shared_from_this()); }

SessionJournal::Taken SessionJournal::Take() {
  Taken taken;
  std::vector<int32_t> empty;
  empty.reserve(kReserved);
  std::lock_guard lock(mutex_);
  if (delete_) {
    delete_ = false;
    taken.anything = taken.deleted = taken.sync = true;
    taken.waiters.swap(waiters_);
    if (durability_ == Durability::kNone) {
      // From now on its stream waits for nothing.
      taken.stream = stream_;
      taken.end = std::numeric_limits<int64_t>::max();
      taken.finish = true;
    }
    blobs_.clear();
    dropped_.clear();
    record_ = false;
    return taken;
  }
  if (std::exchange(unreported_, false)) taken.failure = failure_;
  if (state_ != State::kReady) return taken;
  const bool durable = durability_ != Durability::kNone;
  if (history_) {
    taken.sequence = ++sequence_;
    taken.kept = kept_;
    taken.tokens = std::exchange(tokens_, std::move(empty));
    history_ = false;
  }
  taken.record = std::exchange(record_, false) && durable;
  taken.blobs.swap(blobs_);
  taken.dropped.swap(dropped_);
  if (drop_end_ > oldest_) {
    taken.drop_begin = oldest_;
    taken.drop_end = oldest_ = drop_end_;
  }
  taken.waiters.swap(waiters_);
  taken.stream = stream_;
  taken.end = size_;
  taken.finish = std::exchange(finish_, false);
  const bool writes = taken.sequence != 0 || taken.record;
  taken.sync = taken.finish || !taken.waiters.empty() ||
               (durability_ == Durability::kAlways && writes);
  taken.anything = writes || taken.sync || taken.stream != nullptr ||
                   !taken.blobs.empty() || !taken.dropped.empty();
  return taken;
}

void SessionJournal::Written(Taken& taken) {
  if (!taken.blobs.empty()) {
    std::lock_guard lock(mutex_);
    for (const Blob& blob : taken.blobs) {
      for (Kept& kept : snapshots_) {
        if (kept.snapshot.name == blob.name) kept.written = true;
      }
    }
  }
  for (const OnSynced& waiter : taken.waiters) waiter(absl::OkStatus());
}

void SessionJournal::Lost(const absl::Status& status) {
  const std::shared_ptr<Session> session = this->session();
  std::vector<OnSynced> waiters;
  {
    std::lock_guard lock(mutex_);
    waiters.swap(waiters_);
    copies_base_ = false;
    if (session != nullptr && !session->resident && state_ == State::kReady) {
      // What is stored is all of its history. Its record is written again.
      record_ = true;
    } else {
      DropHistoryLocked();
      blobs_.clear();
      dropped_.clear();
      if (state_ != State::kDeleted) state_ = State::kFailed;
      failure_ = status;
    }
  }
  for (const OnSynced& waiter : waiters) waiter(status);
}

void ReleaseWhenSynced(SessionJournal& journal,
                       const std::shared_ptr<TokenStream>& stream) {
  journal.Flush([stream](const absl::Status& status) {
    if (!status.ok() && stream->StopDelivery()) {
      static_cast<void>(stream->Finish(status, std::nullopt));
    }
    if (stream->Release(std::numeric_limits<int64_t>::max(), /*finish=*/true,
                        std::chrono::steady_clock::now()) !=
        TokenStream::Notice::kNone) {
      stream->RunCallback();
    }
  });
}

bool SessionJournal::Recover() {
  std::lock_guard lock(mutex_);
  failure_ = absl::OkStatus();
  if (state_ == State::kDeleted || durability_ == Durability::kNone) {
    delete_ = true;
    return false;
  }
  if (state_ != State::kFailed) return false;
  state_ = State::kNeedsBase;
  return true;
}

}  // namespace mnemon
