// SPDX-License-Identifier: MIT
// What the parts of one model's runner share.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "server/admission/pool_turns.h"
#include "server/requests/engine_model.h"
#include "server/residency/residency.h"
#include "server/run/engine_context.h"
#include "server/run/runner_calls.h"
#include "server/run/runner_counts.h"
#include "server/run/stepper.h"
#include "server/waiting/callback_threads.h"

namespace mnemon {

// All that is not constant is owned by the runner's thread.
struct RunnerScope {
  using Time = std::chrono::steady_clock::time_point;

  // `model.decoder` is set.
  RunnerScope(size_t its_index, const EngineModel& its_model,
              const std::shared_ptr<const EngineContext>& its_context,
              std::unique_ptr<StateArena> arena, bool on_host);

  // The time in which callers are idle; and one of it by the engine's clock, as far as
  // it is known yet.
  Time IdleNow() const;
  Time FromIdle(Time time) const;
  // When something is due for a running call: by its own limits, or its caller's.
  std::optional<Time> DueOf(const Call& call) const;
  // Calls that were set aside take part in everything again.
  void LookAtStalled();
  // The call takes no part in anything any more.
  void SetOver(Call& call);
  // Has the callbacks of a stream called after this round.
  void Notify(Call& call, TokenStream::Notice notice);
  // Whether all that the call asks for is computed.
  bool NothingToDo(const Call& call) const;
  // Whether it can go on only when its caller reads or sends.
  static bool WaitsForCaller(const Call& call);

  const size_t index;
  const EngineModel model;
  const std::shared_ptr<const EngineContext> context;
  const int64_t context_limit;   // tokens that a session can compute
  const int64_t capacity_bytes;  // of states

  Residency states;
  RunnerCalls calls;
  Stepper stepper;
  PoolTurns::Member turn;
  RunnerCounts counts;
  CallbackList callbacks;             // due after this round
  CallbackList later;                 // due CallbackThreads::kDelay after it
  Time round;                         // when the round began
  Time idle_round;                    // the same by IdleNow
  std::optional<Time> last_step_end;  // absent after a pause
  std::optional<Time> restart_at;     // the device is lost until then at least
  bool unblocked = false;  // a call that waited for blocks has got some in this round
  bool admitted = false;   // a call has started since the last Publish
  int32_t pins = 0;        // states that other threads use
};

// `earliest` becomes `time` where that comes before it.
inline void SetEarlier(std::optional<RunnerScope::Time>& earliest,
                       std::optional<RunnerScope::Time> time) {
  if (time && (!earliest || *time < *earliest)) earliest = time;
}

// The state of a session, for lists: it keeps the session.
inline std::shared_ptr<ResidentState> StateOf(const std::shared_ptr<Session>& session) {
  return {session, &session->in_runner};
}

}  // namespace mnemon
