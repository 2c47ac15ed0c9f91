// SPDX-License-Identifier: MIT
#include "server/durability/gathered_changes.h"

#include <algorithm>
#include <new>
#include <span>
#include <utility>

namespace mnemon {

bool Enlist(std::vector<OnSynced>& list, OnSynced& waiter) try {
  list.emplace_back();
  list.back() = std::exchange(waiter, nullptr);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void GatheredChanges::AddChange(const TokenHistory& history, int64_t kept,
                                int64_t size) {
  if (!entry.changed) entry.kept = history.size();
  const int64_t from = std::min(entry.kept, kept);
  const int64_t stays = kept - from;
  entry.tokens.resize(static_cast<size_t>(from < entry.kept ? 0 : stays));
  entry.kept = from;
  const size_t before = entry.tokens.size();
  entry.tokens.resize(before + static_cast<size_t>(size - kept));
  history.Read(kept, std::span(entry.tokens).subspan(before));
  entry.changed = true;
}

void GatheredChanges::DropHistory() {
  entry.changed = false;
  entry.tokens.clear();
  fold = {};
}

void GatheredChanges::DropSnapshots(JournalSnapshots& snapshots) {
  snapshots.DropAll(dropped);
  checkpoints.clear();
}

void GatheredChanges::RemoveCheckpoint(const std::string& id) {
  std::erase_if(checkpoints,
                [&](const CheckpointHistory& history) { return history.id == id; });
}

bool GatheredChanges::AllTaken() const {
  return !entry.changed && fold.sequence == 0 && checkpoints.empty() && waiters.empty();
}

void GatheredChanges::TakeHistory(TakenChanges& taken, std::vector<int32_t> empty,
                                  uint64_t& sequence) {
  if (entry.changed) {
    taken.sequence = ++sequence;
    taken.kept = entry.kept;
    taken.tokens = std::exchange(entry.tokens, std::move(empty));
    entry.changed = false;
  }
  if (fold.sequence != 0) {
    taken.folded = std::exchange(fold.sequence, 0);
    taken.history = std::exchange(fold.history, {});
  }
  taken.checkpoints.swap(checkpoints);
}

void GatheredChanges::TakeRecord(TakenChanges& taken) {
  taken.record = std::exchange(record, false);
  if (!taken.record) return;
  // Only a record that does not name them lets them go.
  taken.dropped.swap(dropped);
  taken.dropped_checkpoints.swap(dropped_checkpoints);
}

void GatheredChanges::TakeStream(TakenChanges& taken) {
  taken.finish = std::exchange(finish, false);
  // One that has ended waits for nothing more.
  taken.stream = taken.finish ? std::move(stream) : stream;
  taken.end = history_size;
}

}  // namespace mnemon
