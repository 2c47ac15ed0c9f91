// SPDX-License-Identifier: MIT
// Changes of one session that wait for the journal's writer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/durability/journal_snapshots.h"
#include "server/durability/written_journal.h"
#include "server/sessions/token_history.h"
#include "server/streams/token_stream.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

// Moves `waiter` to the end of a list. False: memory has run out, and whoever has the
// waiter answers, with no lock held.
bool Enlist(std::vector<OnSynced>& list, OnSynced& waiter);

// Not safe for concurrent use: guarded by the mutex of its journal.
struct GatheredChanges {
  // All changes of the history as one: the tokens that stay, and those that follow.
  struct Entry {
    bool changed = false;
    int64_t kept = 0;
    std::vector<int32_t> tokens;
  };
  // The history that replaces all entries up to one.
  struct Fold {
    uint64_t sequence = 0;  // of that entry; 0: none
    std::vector<int32_t> history;
  };

  // HistoryObserver::OnChange. Throws std::bad_alloc; then the entry is to be dropped.
  void AddChange(const TokenHistory& history, int64_t kept, int64_t size);
  void DropHistory();
  // All snapshots leave the store; histories of checkpoints that wait do not reach it.
  void DropSnapshots(JournalSnapshots& snapshots);
  void RemoveCheckpoint(const std::string& id);
  // Whether nothing of a history waits, and nobody.
  bool AllTaken() const;

  // Moves what a commit writes, apart from deletions, into `taken`. The entry gets the
  // number after `sequence`, and `empty` becomes the new buffer of tokens. Needs no
  // memory.
  void TakeHistory(TakenChanges& taken, std::vector<int32_t> empty, uint64_t& sequence);
  void TakeRecord(TakenChanges& taken);
  void TakeStream(TakenChanges& taken);

  bool record = false;
  Entry entry;
  Fold fold;
  std::vector<CheckpointHistory> checkpoints;
  std::vector<std::string> dropped;              // names of snapshots
  std::vector<std::string> dropped_checkpoints;  // ids
  std::vector<OnSynced> waiters;
  std::shared_ptr<TokenStream> stream;
  bool finish = false;       // the stream ends with what is gathered
  int64_t history_size = 0;  // tokens, as of the last change
};

}  // namespace mnemon
