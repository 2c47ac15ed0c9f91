// SPDX-License-Identifier: MIT
// Snapshots of one session, those of its checkpoints included, that its record names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/sessions/stored_session.h"

namespace mnemon {

// Not safe for concurrent use: guarded by the mutex of its journal. Those that it drops
// are added to `dropped`, by name.
class JournalSnapshots {
 public:
  JournalSnapshots(std::vector<StoredSnapshot> snapshots,
                   std::vector<StoredCheckpoint> checkpoints);

  // Only so many tokens of the history have stayed.
  void OnCut(int64_t kept) noexcept;
  // A copy is made now, from which Add makes a snapshot.
  void BeginCopy();
  // Drops the oldest ones until `stay` are left.
  void DropOldest(size_t stay, std::vector<std::string>& dropped);
  // The snapshot of the copy, which has so many tokens: it is on its way.
  void Add(StoredSnapshot snapshot, int64_t tokens);
  // False: it is not there.
  bool Remove(const std::string& name);
  // With those of the checkpoints.
  void DropAll(std::vector<std::string>& dropped);

  // Names of those on their way, added to `names`.
  void ListUnwritten(std::vector<std::string>& names) const;
  void SetWritten(const std::vector<std::string>& names);
  // The newest one in the store from whose state the present history, of so many
  // tokens, can go on; nullopt: none is.
  std::optional<StoredSnapshot> Usable(int64_t tokens) const;
  // Tokens of the newest one that the history still has; 0 without one.
  int64_t newest_tokens() const;
  std::vector<StoredSnapshot> List() const;

  const std::vector<StoredCheckpoint>& checkpoints() const { return checkpoints_; }
  // Null: it is not there.
  const StoredCheckpoint* FindCheckpoint(const std::string& id) const;
  // After it AddCheckpoint needs no memory.
  void ReserveCheckpoint() { checkpoints_.reserve(checkpoints_.size() + 1); }
  void AddCheckpoint(StoredCheckpoint checkpoint);
  // False: it is not there. Throws std::bad_alloc, then nothing has changed.
  bool DropCheckpoint(const std::string& id, std::vector<std::string>& dropped);

 private:
  // `common`: of how many tokens it may still be continued; cuts lower it.
  struct Kept {
    StoredSnapshot snapshot;
    int64_t common = 0;
    bool written = true;
  };

  std::vector<Kept> kept_;   // oldest first
  int64_t copy_common_ = 0;  // `common` of the copy, from BeginCopy on
  std::vector<StoredCheckpoint> checkpoints_;
};

}  // namespace mnemon
