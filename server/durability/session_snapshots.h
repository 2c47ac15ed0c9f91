// SPDX-License-Identifier: MIT
// Snapshots of sessions and their proofs. States are shared or made between two steps
// of the model, then read and written on the thread for snapshots or for restores. The
// outcome is told on one of those or on a callback thread. Nothing here throws: where
// memory runs out that is the outcome.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/requests/request.h"
#include "server/run/engine_context.h"
#include "server/run/model_runner.h"
#include "server/sessions/session.h"
#include "server/tasks/session_tasks.h"

namespace mnemon {

// Where the jobs of one model work; all of it outlives them.
struct SnapshotPlace {
  std::shared_ptr<ModelRunner> runner;
  std::shared_ptr<const EngineContext> context;
};

struct EncodedSnapshot {
  std::string bytes;
  std::vector<int32_t> history;
  int64_t computed = 0;  // tokens which its state contains
  ByteCharge charge;     // of `bytes` and `history`
};

// The snapshot of `session` in this scope, with this record.
void ExportSnapshot(const SnapshotPlace& place, std::shared_ptr<Session> session,
                    CopyScope scope, std::string record,
                    OnAnswer<EncodedSnapshot> on_done);

// Gives `session`, which has a history and no state, that of a snapshot of it, where it
// fits the model and the history, and where there is room: the answer says whether.
// `read` is called on the thread that restores. The errors of `read` and of
// DecodeSnapshot; MEMORY_LIMIT. REQUIRES: the history does not change until this
// returns; after a later change the state is not given.
void RestoreState(const SnapshotPlace& place, std::shared_ptr<Session> session,
                  std::function<absl::StatusOr<std::string>()> read,
                  OnAnswer<bool> on_done);

// Checks a snapshot against the model, and makes `session`, which is empty and in no
// directory, what it holds. `finish` sets what the snapshot's record, its second
// argument, says, once the history is there and before the session is added to the
// directory. The errors of DecodeSnapshot; FAILED_PRECONDITION, MODEL_FINGERPRINT;
// MEMORY_LIMIT; those of SessionDirectory::Insert.
void ImportSnapshot(const SnapshotPlace& place, std::string snapshot,
                    std::shared_ptr<Session> session,
                    std::function<absl::Status(Session&, const std::string&)> finish,
                    OnAnswer<std::shared_ptr<Session>> on_done);

// Begins a call that computes the history of a session without a name, and keeps its
// state, pinned.
using BeginReplay = std::function<absl::Status(const std::shared_ptr<Session>& replayed,
                                               OneAnswer<absl::Status> on_end)>;

// Checks the state of `session`. `begin_replay` null: does not replay.
void VerifySnapshot(const SnapshotPlace& place, std::shared_ptr<Session> session,
                    BeginReplay begin_replay, OnAnswer<VerifiedSession> on_done);

}  // namespace mnemon
