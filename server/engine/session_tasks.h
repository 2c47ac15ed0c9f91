// SPDX-License-Identifier: MIT
// The work of forking, rewinding and checkpointing sessions, for their model's runner.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "server/engine/request.h"
#include "server/engine/session_directory.h"
#include "server/engine/state_task.h"

namespace mnemon {

// Called once, on a callback thread.
template <class T>
using OnAnswer = std::function<void(absl::StatusOr<T>)>;

// Adds `child`, an empty session, to the directory with the history and state that the
// parent has at `position`, absent: has now. The answer is the session that was made,
// or that an earlier request with the same id has made.
std::shared_ptr<StateTask> MakeForkTask(std::shared_ptr<Session> parent,
                                        std::shared_ptr<Session> child,
                                        std::optional<int64_t> position,
                                        SessionDirectory& directory,
                                        OnAnswer<std::shared_ptr<Session>> on_done);

// The session forgets the newest tokens, or becomes what a checkpoint has kept. The
// answer is true; false: another call holds it.
std::shared_ptr<StateTask> MakeRewindTask(std::shared_ptr<Session> session,
                                          const RewindSessionRequest& request,
                                          SessionDirectory& directory,
                                          OnAnswer<bool> on_done);

// `at` becomes what the session is now, as a fork would, and a checkpoint of it.
std::shared_ptr<StateTask> MakeCheckpointTask(std::shared_ptr<Session> session,
                                              SessionCheckpoint checkpoint,
                                              bool drawn_id,
                                              SessionDirectory& directory,
                                              OnAnswer<SessionCheckpoint> on_done);

}  // namespace mnemon
