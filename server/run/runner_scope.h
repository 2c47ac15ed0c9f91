// SPDX-License-Identifier: MIT
// What the parts of one model's runner share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "server/admission/admission_queue.h"
#include "server/admission/pool_turns.h"
#include "server/calls/call.h"
#include "server/requests/request.h"
#include "server/residency/residency.h"
#include "server/run/engine_context.h"
#include "server/run/stepper.h"
#include "server/waiting/callback_threads.h"

namespace mnemon {

// The calls of one runner that have a permit or deliver, by phase. A call is on one of
// the lists, at Call::at.
struct RunnerCalls {
  using List = std::list<std::shared_ptr<Call>>;

  List starting;  // have a permit, wait for blocks
  List running;   // but for those below
  // Running calls that wait for their callers and take part in no step under way. A
  // round passes over them until something comes from outside or is due: who changes
  // one calls RunnerScope::LookAtStalled first.
  List stalled;
  List ending;      // end with the next Publish, and deliver then
  List delivering;  // by Call::stalled_since, as is the next one
  List unread;      // deliver too, and have not ended for kUnread since then
  List over;        // until the next Publish

  // What the stalled ones add to the counts of a round.
  struct Stalled {
    std::optional<Call::Time> due;       // RunnerScope::DueOf, the first
    std::optional<Call::Time> deadline;  // likewise
    int64_t named = 0;
  };
  Stalled stalled_counts;

  int32_t endings = 0;       // calls with an `ending`
  int32_t waiting_ends = 0;  // calls with an `end_later`
  // For calls that ended in this round: permits, those among them of calls on sessions,
  // and the generated tokens of calls that ended by themselves, as many as fit.
  int32_t ended_permits = 0;
  int32_t ended_named = 0;
  std::vector<int64_t> ended_generated;

  bool AnyRuns() const { return !running.empty() || !stalled.empty(); }
};

// What a runner publishes after each round for other threads.
struct RunnerCounts {
  int64_t running_named = 0;  // running calls on sessions
  AdmissionQueue::Running running;
  int64_t delivering = 0;
  int64_t unread = 0;  // of them, those whose consumers do not read
  int64_t stalled = 0;
  // Since when calls have waited for blocks, and none has got any.
  std::optional<Call::Time> blocked_since;
  // By when one of the calls with a permit should have ended; absent: none has to.
  std::optional<Call::Time> due;
  bool device_lost = false;
  int64_t resting = 0;  // named sessions at rest that have a state
  int64_t state_bytes = 0;
  int64_t running_state_bytes = 0;
  int64_t shadow_bytes = 0;
  int64_t steps = 0;
  int64_t tokens_computed = 0;
  int64_t tokens_generated = 0;
  int64_t preemptions = 0;
};

// All that is not constant is owned by the runner's thread.
struct RunnerScope {
  using Time = Call::Time;

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
  // Ends the call's stream, unless it has ended.
  void Finish(Call& call, absl::Status status,
              std::optional<FinishFacts> facts = std::nullopt, bool held = false);
  // Whether all that the call asks for is computed.
  bool NothingToDo(const Call& call) const;
  // Whether it can go on only when its caller reads or sends.
  static bool WaitsForCaller(const Call& call);
  // So many blocks, and blocks of fixed entries, are not to be had. True: memory that
  // others have in reserve or just gave up, or states that they can drop, may help, and
  // the runner is woken after they are given up. False: a call may end for want of it.
  bool MayGetMemory(int64_t blocks, int64_t fixed);
  // A call has got what it needs.
  void EndShortage() { short_since = promised_since = std::nullopt; }

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
  // Since when there has been no memory, and nobody who could give some up; and since
  // when others have been giving some up. By the machine's clock, because other threads
  // are waited for.
  std::optional<Time> short_since;
  std::optional<Time> promised_since;
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
