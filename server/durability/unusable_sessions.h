// SPDX-License-Identifier: MIT
// Sessions of the store that are not in the directory, since they are damaged or their
// model is not loaded. No other session gets their ids.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "base/memory/byte_budget.h"
#include "server/sessions/session_directory.h"

namespace mnemon {

// Safe for concurrent use.
class UnusableSessions {
 public:
  // `directory` outlives it. `charge` counts its memory.
  UnusableSessions(SessionDirectory& directory, ByteCharge charge);

  // Why no session with this id can be used or made, or OK.
  absl::Status Check(const std::string& id) const;
  void AddDamaged(const std::string& id, const absl::Status& damage);
  void AddForeign(const std::string& id, const std::string& model);
  // A sleeping session that the store cannot give is damaged from now on. False: it
  // does not sleep, and nothing has changed.
  bool GiveUp(const std::string& id, const absl::Status& damage);
  // The store has nothing of it any more.
  void Free(const std::string& id);

 private:
  // One of them.
  struct Reason {
    std::shared_ptr<const absl::Status> damage;
    const std::string* model = nullptr;  // of other_models_
  };
  // False: there was a reason already.
  bool AddLocked(const std::string& id, Reason reason);
  void RemoveLocked(const std::string& id);

  SessionDirectory& directory_;

  // Guards all below. May be held when the directory's is locked.
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Reason> reasons_;  // by id
  ByteCharge charge_;
  std::set<std::string> other_models_;  // names
};

}  // namespace mnemon
