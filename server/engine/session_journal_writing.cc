// SPDX-License-Identifier: MIT
// A session's journal as its writer sees it.
#include <iterator>
#include <limits>
#include <utility>

#include "base/out_of_memory.h"
#include "server/engine/journal_writer.h"
#include "server/engine/session.h"
#include "server/engine/session_journal.h"

namespace mnemon {
namespace {

// As many as a stream holds back: what usually comes between two writes.
constexpr size_t kReserved = TokenStream::kCapacity;

}  // namespace

SessionJournal::Taken SessionJournal::Take() {
  Taken taken;
  std::vector<int32_t> empty;
  empty.reserve(kReserved);
  std::lock_guard lock(mutex_);
  // Before anything changes: it takes memory.
  taken.refusal = EndLocked();
  if (delete_) {
    delete_ = false;
    taken.anything = taken.deleted = taken.sync = true;
    taken.waiters.swap(deleters_);
    deletion_taken_ = deleting_;
    if (state_ == State::kDeleted) {
      taken.refused.swap(waiters_);
    } else if (deleting_) {
      // What else there is to write waits for the outcome.
      return taken;
    } else if (durability_ != Durability::kNone) {
      // It is durable again: what it then needs comes behind.
      taken.again = true;
      return taken;
    } else {
      taken.waiters.swap(waiters_);
    }
    taken.dropped.swap(dropped_);
    checkpoint_histories_.clear();
    record_ = false;
    folded_tokens_ = entries_ = entry_tokens_ = 0;
    return taken;
  }
  if (std::exchange(unreported_, false)) taken.failure = failure_;
  if (!taken.refusal.ok()) {
    taken.refused.swap(waiters_);
    return taken;
  }
  if (durability_ == Durability::kNone) {
    // What its waiters wait for is done.
    taken.waiters.swap(waiters_);
    taken.anything = !taken.waiters.empty();
    return taken;
  }
  if (state_ != State::kReady) return taken;
  if (history_) {
    taken.sequence = ++sequence_;
    taken.kept = kept_;
    taken.tokens = std::exchange(tokens_, std::move(empty));
    history_ = false;
    ++entries_;
    entry_tokens_ += static_cast<int64_t>(taken.tokens.size());
  }
  taken.record = std::exchange(record_, false);
  if (fold_ != 0) {
    taken.folded = std::exchange(fold_, 0);
    taken.history = std::exchange(fold_history_, {});
  }
  taken.checkpoints.swap(checkpoint_histories_);
  if (taken.record) {
    // Only a record that does not name them lets them go.
    taken.dropped.swap(dropped_);
    taken.dropped_checkpoints.swap(dropped_checkpoints_);
    for (const Kept& kept : snapshots_) {
      if (!kept.written) taken.snapshots.push_back(kept.snapshot.name);
    }
  }
  taken.waiters.swap(waiters_);
  taken.finish = std::exchange(finish_, false);
  // One that has ended waits for nothing more.
  taken.stream = taken.finish ? std::move(stream_) : stream_;
  taken.end = size_;
  const bool writes = taken.sequence != 0 || taken.record;
  taken.sync = taken.finish || !taken.waiters.empty() ||
               (durability_ == Durability::kAlways && writes);
  taken.anything = writes || taken.sync || taken.stream != nullptr ||
                   taken.folded != 0 || !taken.checkpoints.empty();
  return taken;
}

void SessionJournal::Written(Taken& taken) {
  if (!taken.snapshots.empty()) {
    std::lock_guard lock(mutex_);
    for (const std::string& name : taken.snapshots) {
      for (Kept& kept : snapshots_) {
        if (kept.snapshot.name == name) kept.written = true;
      }
    }
  }
  std::vector<OnSynced> gone;
  std::shared_ptr<TokenStream> stream;
  absl::Status deleted;
  bool tried = false;      // whether those of TryDelete wait for it,
  bool succeeded = false;  // and nothing else has deleted it before
  if (taken.deleted) {
    std::lock_guard lock(mutex_);
    tried = std::exchange(deletion_taken_, false);
    if (tried && state_ != State::kDeleted) {
      succeeded = true;
      deleting_ = false;
      state_ = State::kDeleted;
      DropHistoryLocked();
    }
    in_store_ = state_ != State::kDeleted && durability_ != Durability::kNone;
    if (!in_store_) {
      unstoring_ = false;
      stream = finish_ ? std::move(stream_) : stream_;
      DropSnapshotsLocked();
      taken.dropped.insert(taken.dropped.end(), dropped_.begin(), dropped_.end());
      dropped_.clear();
    }
    deleted = CatchOutOfMemory({}, [this] { return EndLocked(); });
    if (!deleted.ok()) gone.swap(waiters_);
  }
  if (stream != nullptr) ReleaseAll(std::move(stream));
  if (succeeded) writer_.hooks_.deleted(*this);
  for (const OnSynced& waiter : taken.waiters) {
    // One of them has deleted it.
    waiter(!tried || std::exchange(succeeded, false) ? absl::OkStatus() : deleted);
  }
  for (const OnSynced& waiter : gone) waiter(deleted);
}

void SessionJournal::Lost(const absl::Status& status, Taken taken) {
  const std::shared_ptr<Session> session = this->session();
  std::vector<OnSynced> waiters, deleters;
  {
    std::lock_guard lock(mutex_);
    waiters.swap(waiters_);
    deleters.swap(deleters_);
    if (std::exchange(deleting_, false) && state_ != State::kDeleted) {
      delete_ = false;
      in_doubt_ = deletion_taken_;
    }
    deletion_taken_ = false;
    copies_base_ = false;
    const auto keep = [](std::vector<std::string>& names,
                         std::vector<std::string>& more) {
      names.insert(names.end(), std::make_move_iterator(more.begin()),
                   std::make_move_iterator(more.end()));
    };
    // Where memory has run out their files stay until the next start.
    static_cast<void>(CatchOutOfMemory({}, [&] {
      keep(dropped_, taken.dropped);
      keep(dropped_checkpoints_, taken.dropped_checkpoints);
      return absl::OkStatus();
    }));
    if (session != nullptr && !session->resident && state_ == State::kReady) {
      // What is stored is all of its history. Its record is written again.
      record_ = true;
    } else {
      DropHistoryLocked();
      checkpoint_histories_.clear();
      if (state_ != State::kDeleted) state_ = State::kFailed;
      failure_ = status;
    }
  }
  for (const OnSynced& waiter : waiters) waiter(status);
  for (const OnSynced& deleter : deleters) deleter(status);
}

bool SessionJournal::Recover() {
  std::lock_guard lock(mutex_);
  failure_ = absl::OkStatus();
  if (state_ == State::kDeleted || durability_ == Durability::kNone) {
    delete_ = in_store_;
    return false;
  }
  if (state_ != State::kFailed) return false;
  state_ = State::kNeedsBase;
  return true;
}

bool SessionJournal::TakeDoubt() {
  const std::shared_ptr<Session> session = this->session();
  std::lock_guard lock(mutex_);
  return std::exchange(in_doubt_, false) && session != nullptr && !session->resident;
}

}  // namespace mnemon
