// SPDX-License-Identifier: MIT
// The runner of one loaded decoder: a thread with its own lock, queue and arena, which
// makes all calls of that model. Continuous batching: every running call takes part in
// every step of its model until it finishes, pauses or ends.
//
// Permits: at most Engine::Options::running calls run at once, more wait in the queue,
// in order of arrival. A call whose caller does not read (or, of a Score call, does not
// send) lends its permit to one that waits. While a call with a permit waits for
// blocks, no other gets one.
//
// Slots: a call holds one while it runs, and while it delivers unless others need it.
// Sessions at rest hold none.
//
// Blocks: those for a whole prompt are reserved when its call is admitted; what grows
// while tokens are generated is taken step by step. A running call that finds none
// pauses, and until it goes on no other call is admitted; the states of sessions at
// rest then go, the longest unused first (from a device to the host's memory, whence
// they come back; else the next call computes them again from the history), and when
// nothing can step, those of stalled calls; when all running calls are paused for
// blocks and no such state is left, the one admitted last is preempted: its state goes,
// and it waits until its whole history can be computed again. A call that does not fit
// where it is the only one left ends, RESOURCE_EXHAUSTED, at its last generated token.
//
// Steps: where the decoder takes more than one, the runner plans and submits the next
// one while one is under way, as if its calls had got the tokens that it draws. What
// ends a call is found when its token is known: what a step computes beyond it is
// dropped. A call ends when no step that it takes part in is under way.
//
// See docs/engine_threads.md for who may touch what.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/call.h"
#include "server/engine/engine_context.h"
#include "server/engine/engine_model.h"
#include "server/engine/load_estimate.h"
#include "server/engine/pool_turns.h"
#include "server/engine/progress.h"
#include "server/engine/request.h"
#include "server/engine/scheduler.h"
#include "server/engine/state_task.h"
#include "server/engine/stepper.h"

namespace mnemon {

// Shared, because callbacks of streams may come at any time; what they do then is
// without effect after Stop.
class ModelRunner : public std::enable_shared_from_this<ModelRunner>,
                    private StateAccess {
 public:
  // `model.decoder` is set. RESOURCE_EXHAUSTED when state_bytes does not hold one
  // session, or no thread can be started.
  static absl::StatusOr<std::shared_ptr<ModelRunner>> Start(
      size_t index, const EngineModel& model,
      const std::shared_ptr<const EngineContext>& context);
  ~ModelRunner() override;

  const EngineModel& model() const { return model_; }
  // Any thread, for states that are pinned.
  StateMemory& state_memory() const { return arena_->memory(); }
  int64_t vocab() const { return vocab_; }
  // Tokens a session can compute.
  int64_t context_limit() const { return context_limit_; }
  bool state_on_host() const { return state_on_host_; }

  // Any thread.
  // Starts or queues the call; its tokens and its end then go to its stream, unless an
  // error is returned: UNAVAILABLE, DRAINING; RESOURCE_EXHAUSTED: QUEUE_FULL,
  // DEADLINE_UNREACHABLE. REQUIRES: the caller holds the call's session.
  absl::Status Enqueue(const std::shared_ptr<Call>& call);
  // Of a call that resumes another one and was not admitted: its stream may have given
  // what was there.
  void RememberStream(const Call& call);
  // What the consumer of the call's stream did; called from its Take and Cancel.
  void OnStreamEvent(const std::shared_ptr<Call>& call, StreamEvent event);
  // Appends a part to a scoring call. RESOURCE_EXHAUSTED, QUEUE_FULL, while it waits
  // for a permit and the parts of all that wait exceed queue_bytes. REQUIRES: tokens
  // below V that fit the context.
  absl::Status AddInput(const std::shared_ptr<Call>& call,
                        std::span<const int32_t> tokens);
  // No part follows.
  void CloseInput(const std::shared_ptr<Call>& call);
  // The session left the directory: a call on it ends, and its state is dropped.
  void Forget(std::shared_ptr<Session> session);
  // Has the task done between two steps; refuses it from Stop on.
  void Do(std::shared_ptr<StateTask> task);
  // Memory is short: drops states of sessions at rest, of about so many bytes. False:
  // there are none.
  bool GiveUp(int64_t bytes);
  // A call was refused since no memory was left for it.
  void RefuseForMemory();
  // Refuses calls from now on; those taken go on.
  void Drain();
  // True when no call waits or runs; waits until `deadline` at most.
  bool WaitIdle(std::chrono::steady_clock::time_point deadline);
  // Ends all calls with UNAVAILABLE and joins the thread.
  void Stop();
  ModelStats Stats() const;
  // Until a running call ends by itself, on average, as measured; 0: not known yet.
  LoadEstimate::Duration TimeLeft() const;

 private:
  using Time = std::chrono::steady_clock::time_point;

  // A part of a scoring call, in pieces that join its history one by one.
  struct Input {
    std::shared_ptr<Call> call;
    std::list<InputPiece> pieces;
    int64_t tokens = 0;
  };
  // What changes from step to step, for other threads.
  struct Counts {
    int64_t running = 0;
    int64_t running_named = 0;  // calls on sessions
    LoadEstimate::Load load;
    int64_t starting = 0;  // calls that have a permit and wait for blocks
    LoadEstimate::Work starting_work;
    int64_t delivering = 0;
    int64_t unread = 0;  // of them, those whose consumers do not read
    int64_t stalled = 0;
    // Since when calls have waited for blocks, and none has got any.
    std::optional<Time> blocked_since;
    // By when one of the calls with a permit should have ended; absent: none has to.
    std::optional<Time> due;
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
  static constexpr int64_t kMostDropped = 64;
  static constexpr std::chrono::milliseconds kMemoryOnItsWay{50};
  static constexpr std::chrono::milliseconds kMemoryPromised{1000};
  // Between two tries to bring a lost device back.
  static constexpr std::chrono::milliseconds kRestartPause{1000};
  // A consumer that reads takes the rest of a call sooner; at most the idle timeout.
  static constexpr std::chrono::milliseconds kUnread{1000};
  using Calls = std::list<std::shared_ptr<Call>>;
  // Why a call is not taken, as found under the mutex. Its status is made after it.
  struct Refusal {
    enum class Reason {
      kDraining,
      kCancelled,
      kQueueFull,
      kDeadline,
    } reason;
    int64_t waiting = 0;             // calls
    LoadEstimate::Duration wait{0};  // of a call that would join the queue now
  };
  // Waiting calls that will not start.
  struct Refused {
    Calls too_late;
    LoadEstimate::Duration wait{0};
  };
  // Holds the mutex; after it, notifies the runner's thread if that has to wake up.
  class Lock {
   public:
    explicit Lock(ModelRunner& runner) : runner_(runner), lock_(runner.mutex_) {}
    ~Lock() {
      const bool notify = std::exchange(runner_.notify_, false);
      lock_.unlock();
      if (notify) runner_.work_.notify_one();
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    ModelRunner& runner_;
    std::unique_lock<std::mutex> lock_;
  };

  ModelRunner(size_t index, const EngineModel& model,
              const std::shared_ptr<const EngineContext>& context,
              std::unique_ptr<StateArena> arena, bool on_host,
              std::function<void()> on_clean);

  // Any thread. "Locked": mutex_ is held, by a Lock where a thread may have to wake up.
  // Something has changed that the next round checks.
  void Wake();
  void WakeLocked();
  void HandOverLocked(const std::shared_ptr<Call>& call);
  bool PermitFreeLocked() const;
  // Gives a permit to the one call of `node`, which is left empty.
  void StartLocked(Calls& node);
  // Of a call that would join the queue now.
  LoadEstimate::Duration WaitTimeLocked() const;
  LoadEstimate::Duration TimeToNextEnd() const;
  LoadEstimate::Duration RunTimeLocked(const Call& call) const;
  LoadEstimate::Load LoadLocked() const;
  // Of calls that start before one that would join the queue now.
  LoadEstimate::Work WaitingLocked() const;
  // Whether the call would end behind its deadline if it took so long from now on.
  bool TooLateLocked(const Call& call, LoadEstimate::Duration takes) const;
  // Whether the queue has no room for a call with this input (QUEUE_FULL).
  bool QueueFullLocked(int64_t input_bytes) const;
  // One of kUnreadyReasons, or empty. `limit`: EngineContext::ProgressLimit.
  std::string_view WhyUnreadyLocked(Time now, Progress::Duration limit) const;
  Refusal RefusalLocked(Refusal::Reason reason) const;
  absl::Status StatusOf(const Refusal& refusal) const;
  // `node` holds the call alone; it is empty when the call was taken.
  std::optional<Refusal> EnqueueLocked(Calls& node);
  // Hands permits to waiting calls, and refuses those that would be too late.
  void StartWaitingLocked(Refused& refused);
  // Of those that go on waiting, now and then: before their turn comes.
  void RefuseLateLocked(Refused& refused);
  // Moves a waiting call to the end of `to`.
  void RemoveWaitingLocked(Call& call, Calls& to);
  bool IdleLocked() const;
  // Ends calls that never ran.
  void Refuse(Calls& calls, const absl::Status& status);
  void Refuse(Refused& refused);

  // The runner's thread: model_runner.cc.
  void Run();
  // Waits for something to do; false = stop.
  bool Await();
  // Waits a moment with the turn on the pool; false: it is to be given up.
  bool AwaitConsumersWithTheTurn();
  std::optional<Time> NextDue() const;
  // The time in which callers are idle; and one of it by the engine's clock, as far as
  // it is known yet.
  Time IdleNow() const;
  Time FromIdle(Time time) const;
  void Round();
  // Calls that were set aside take part in everything again.
  void LookAtStalled();
  // Takes over what Await found: parts to score, removed sessions, and calls whose
  // consumers ended.
  void Receive();
  void HandleForgotten(const std::shared_ptr<Session>& session);
  // Of a session that left the directory.
  void DropCheckpoints(const Session& session);
  // Completes the steps under way, if there is any task.
  void DoTasks();
  // Appends the next of a scoring call's input to its history, where a step may compute
  // it.
  void TakeInput(Call& call);
  // Ends calls that were cancelled, whose time is up, or whose callers are idle, and
  // releases those whose end was taken.
  void EndDueCalls();
  // The source of a scoring call becomes what its copy is.
  void Join(Call& call);
  // Of a call without a named session of its own: its source is released, unless that
  // has changed and the store is to have it first.
  void EndCopy(const Call& call);
  void HandleConsumerEnd(const std::shared_ptr<Call>& call);
  // Of a call whose consumer has taken the end, and releases the session itself.
  void LeaveDelivered(Call& call);
  void EndDueDelivering();
  // One step for the chunks of the plan; then one for each whose call was part of a
  // step that failed, with a turn of its own. Where the decoder takes several steps,
  // all but the last are complete afterwards.
  void RunStep();
  // Begins a step, of some chunks, and completes steps until `left` are under way, or,
  // where one could not be begun, none.
  void Step(std::span<ScheduledChunk> chunks, int left);
  // Completes the oldest step.
  std::span<ScheduledChunk> CompleteStep();
  // Takes the results of a step, and ends calls that waited for it.
  void Commit(std::span<ScheduledChunk> chunks);
  void Commit(ScheduledChunk& chunk);
  void CommitToken(ScheduledChunk& chunk, const std::shared_ptr<Call>& call);
  // Whether the history of the call has not taken more memory than there is for it.
  bool HistoryFits(const Call& call) const;
  void Push(Call& call, int64_t index, int32_t token,
            std::optional<TokenLogprobs> logprobs,
            std::optional<Introspection> introspection = {});
  // Of its history `computed` tokens are.
  void ReportPrompt(Call& call, int64_t computed);
  void Notify(Call& call, TokenStream::Notice notice);
  // Publishes what other threads read, starts waiting calls, hands over callbacks.
  void Publish();

  // The runner's thread: model_runner_calls.cc.
  // Admits calls that have a permit, in order, until one has to wait for blocks. False:
  // nothing has changed.
  bool AdmitStarting();
  // False: it waits for blocks.
  bool Admit(std::shared_ptr<Call> call);
  // OK, or why a call that waits for blocks can no longer end before its deadline.
  absl::Status CheckDeadline(const Call& call) const;
  absl::StatusOr<bool> TryAdmit(Call& call);
  // Gives a call that only scores the state of its source, where that is as it was.
  absl::Status PrepareScoring(Call& call);
  // Ends a call that has a permit and was not admitted.
  void EndStarting(std::shared_ptr<Call> call, absl::Status status);
  // Whether all that the call asks for is computed.
  bool NothingToDo(const Call& call) const;
  // Whether it can go on only when its caller reads or sends.
  bool WaitsForCaller(const Call& call) const;
  // Ends a running call, now or when the steps that it takes part in are complete: a
  // cancelled one at its last delivered token, another one at its last generated token,
  // or rolled back when it failed before its first token.
  void End(const std::shared_ptr<Call>& call, absl::Status status,
           std::optional<FinishFacts> facts = std::nullopt);
  // Ends those that waited for steps which are complete.
  void EndWaiting();
  // Likewise where its caller is at fault: tokens that wait in the stream are dropped.
  void Abort(const std::shared_ptr<Call>& call, const absl::Status& status);
  // Ends one that delivers, likewise.
  void EndDelivering(Call& call, const absl::Status& status);
  // The end of its stream waits for nothing.
  void ReleaseEnd(Call& call);
  // Its stream ends so, and the call goes on.
  void LeaveConsumer(Call& call, const absl::Status& status);
  // Whether the prompt stays in the history when the call is cut.
  static bool KeepsPrompt(const Call& call);
  // The error with what has become of the prompt.
  static absl::Status ToldOfPrompt(const Call& call, absl::Status status, bool taken);
  // Whether a call that ended so can be resumed, and then goes on.
  static bool CanGoOn(const absl::Status& status);
  // Calls change(record) with a copy of what the session remembers of the call, and
  // puts it in the place of that. No effect where the call cannot be resumed, or memory
  // has run out.
  template <class Change>
  void Remember(const Call& call, const Change& change);
  void RememberEnd(const Call& call);
  // REQUIRES: the history is final.
  void RememberDetached(const Call& call);
  // The session of a call that was cancelled or aborted: cut, or as before the call.
  void CutToDelivered(Call& call);
  void RollBack(Call& call);
  // With the next Publish.
  void GiveBackPermit(const Call& call);
  // The call no longer holds its session, whose history is final; its request id is
  // remembered if it was `taken`.
  void Release(Call& call, bool taken);
  // Has what is new of a session written, where there is a store; its snapshot now, or,
  // where one turn follows another, once it has rested.
  enum class SnapshotTime { kNow, kAtRest };
  void Store(const std::shared_ptr<Session>& session, SnapshotTime time);
  // Whether the turn that ends now follows another one of the session so closely that
  // its snapshot may wait for the next.
  bool FollowsClosely(Session& session) const;
  // The list of a call that has a permit or delivers, as its phase says.
  Calls& ListOf(const Call& call);
  // The call takes no part in anything any more.
  void SetOver(Call& call);
  // Its state is not in use, and may be dropped.
  void BeginResting(const std::shared_ptr<Session>& session);
  void StopResting(Session& session);
  void CountDroppable();
  // The memory of its state at rest is for others. Where it is a device's the numbers
  // go to the host's memory, as long as there is some.
  void MakeWay(Session& session);
  // Of a session whose state is an image from now on.
  void MarkLeft(const std::shared_ptr<Session>& session);
  // Its state comes back from there, or is to be computed again. False: it waits until
  // room is made.
  bool ComeBack(Session& session);
  // Of the session that left first.
  void DropFirstImage();
  void EndAll(const absl::Status& status);

  // StateAccess: model_runner_tasks.cc.
  StateArena& arena() override { return *arena_; }
  int64_t PositionOf(const Session& session) const override;
  void Rest(const std::shared_ptr<Session>& session) override;
  void DropState(Session& session) override;
  void BringBack(const std::shared_ptr<Session>& session) override;
  void EndCall(Session& session, const absl::Status& status) override;
  void GiveWay(Session& session, const std::string& request_id) override;
  void Supersede(const std::shared_ptr<Call>& call) override;
  absl::StatusOr<bool> Hold(Session& session) override;
  bool MakeRoomFor(int64_t computed) override;
  absl::Status MemoryLimit(int64_t bytes) override;
  void Pin(Session& session) override;
  void Unpin(Session& session) override;
  void Post(std::shared_ptr<Callback> callback) override;

  // The runner's thread: model_runner_device.cc.
  // The device of the decoder was lost, and all states with it: ends the calls that
  // run. The others go on when it is back.
  void LoseDevice();
  // Whether the device is there, or back just now.
  bool DeviceThere();
  absl::Status Restart();
  void DropAllStates();

  // The runner's thread: model_runner_plan.cc.
  void Plan();
  // Tokens that the steps under way draw for it, and that the next one may compute.
  int64_t DrawnAhead(const Call& call) const;
  int64_t BlocksFor(const Session& session, int64_t tokens) const;
  int64_t BlocksHeld(const Session& session) const;
  // Of the prompts of running calls and of scheduled chunks, those that are not taken.
  int64_t PromisedBlocks() const;
  // Free blocks that no call has reserved and no scheduled chunk takes: up to `wanted`,
  // which memory is put aside for, and perhaps more.
  int64_t FreeBlocks(int64_t wanted);
  // The same of blocks of fixed entries.
  int64_t FreeFixed(int64_t wanted);
  // Blocks that the chunks of a plan take at most, beside those that are reserved.
  int64_t WantedBlocks() const;
  // Has a chunk pause for which no block of fixed entries is free.
  void PlanFixed();
  // Makes `needed` blocks of fixed entries free and, given `bytes`, lets these fit, or
  // drops all states that it may. False: none was dropped.
  bool MakeFixedRoom(int64_t needed, std::optional<int64_t> bytes = std::nullopt,
                     const Session* except = nullptr);
  // Whether so many bytes of fixed entries more fit into state_bytes, beside the blocks
  // that are promised.
  bool StatesFit(int64_t bytes) const;
  // Whether a slot is free for a call. Where none is, a call that has computed all and
  // delivers gives its own up: its session rests, and where its consumer then stops in
  // the middle, some of it is computed again.
  bool SlotFree();
  // Bytes in slots, shared blocks once for each.
  int64_t SlotBytes() const;
  // The session no longer has a slot in which its call delivers: where the call is
  // over, and before its state leaves the slot.
  void LeaveSlot(const Session& session);
  // So many blocks, and blocks of fixed entries, are not to be had. True: memory that
  // others have in reserve or just gave up, or states that they can drop, may help, and
  // the runner is woken after they are given up.
  bool AskForMemory(int64_t blocks, int64_t fixed);
  // A call has got what it needs.
  void HasMemory() {
    short_since_.reset();
    promised_since_.reset();
  }
  // Drops the states that another one asked for.
  void GiveUpStates();
  // Drops states until `needed` blocks are free, or none is left to drop: of sessions
  // at rest and of calls that have computed all, the longest unused first, then of
  // calls that wait for blocks; not that of `except`. A round looks at kMostDropped of
  // the first; where that was not enough, room_unfinished_ is set. False: none was
  // dropped.
  bool MakeRoom(int64_t needed, const Session* except = nullptr);
  // Whether the next token that a call computes needs a copy of its last block.
  bool CopiesLastBlock(const Session& session) const;
  // Drops the state that the one of a scoring call is a copy of, unless a call uses it,
  // so that blocks need not be copied.
  void DropSource(const Call& call);
  // Drops the state of a stalled call, of the one admitted last. False: there is none.
  bool DropStalled();
  // Drops the state of a running call, which keeps its slot.
  void Preempt(Call& call);
  // Whether a preempted call goes on: when its history fits, with some room for those
  // that run, or all that there is where none runs.
  bool GoesOn(Call& call);
  // Drops a state at rest although others hold all of its blocks: those may be at rest,
  // too. False: there is none.
  bool DropShared();
  // Whether a pinned state will be given back whatever the calls do: one that a replay
  // is compared with stays until that ends.
  bool PinsEnd() const;
  // `earliest` becomes `time` where that comes before it.
  static void SetEarlier(std::optional<Time>& earliest, std::optional<Time> time) {
    if (time && (!earliest || *time < *earliest)) earliest = time;
  }
  // When something is due for a running call: by its own limits, or its caller's.
  std::optional<Time> DueOf(const Call& call) const;
  // Whether any call runs.
  bool AnyRuns() const { return !running_.empty() || !stalled_.empty(); }
  // Blocks that it may take without asking, beside those that it has.
  int64_t PromisedTo(const Call& call) const;
  // Of running_, into stalled_.
  void SetAside(Calls::iterator call);
  // Nothing can step, and calls wait for blocks: makes room, or ends a call. True:
  // Plan or AdmitStarting may find more.
  bool ResolveStarvation();

  void UpdateBytes(Session& session);

  const size_t index_;
  const EngineModel model_;
  const std::shared_ptr<const EngineContext> context_;
  const int64_t vocab_;          // V
  const int64_t context_limit_;  // tokens
  const int64_t block_bytes_;
  const int64_t capacity_bytes_;
  const int32_t most_running_;
  const bool state_on_host_;
  // Sessions whose calls deliver and which hold a slot, by slot.
  std::vector<Session*> delivering_slots_;

  mutable std::mutex mutex_;  // guards what follows, up to published_
  std::condition_variable work_;
  std::condition_variable idle_;
  bool awake_ = false;  // a round is due
  Calls started_;       // have got a permit
  std::vector<Input> inputs_;
  SessionList forgotten_;  // sessions that left the directory
  std::list<std::shared_ptr<StateTask>> tasks_;
  Calls consumed_;             // calls whose consumer has taken the end or cancelled
  Calls queue_;                // calls that wait for a permit, in order of arrival
  int64_t waiting_ = 0;        // their number
  int64_t waiting_named_ = 0;  // of them, calls on sessions
  LoadEstimate::Work waiting_work_;
  int64_t waiting_bytes_ = 0;
  int32_t permits_ = 0;        // held by calls that start or run
  int32_t permits_named_ = 0;  // of them, by calls on sessions
  int32_t lent_ = 0;           // of them, by stalled calls
  bool draining_ = false;
  bool stopping_ = false;
  bool asleep_ = false;
  bool notify_ = false;  // work_, once the mutex is released
  // But for RecordTurn, changed by the runner's thread alone, which reads it without
  // the mutex.
  LoadEstimate estimate_;
  Counts published_;  // as of the last round
  // When the last call was refused for want of memory; absent once one has started.
  std::optional<Time> memory_refused_;
  LoadEstimate::Load handed_;  // of calls that got a permit since
  Time late_checked_;          // when waiting calls were last asked for that
  mutable Progress progress_;  // but for signs

  std::atomic<bool> stop_now_ = false;  // stopping_, for the runner between steps
  std::atomic<int64_t> asked_ = 0;      // bytes that GiveUp asked for
  // Size of resting_, or of left_ where states lie in a device's memory.
  std::atomic<int64_t> droppable_ = 0;

  // Owned by the runner's thread.
  const std::function<void()> on_clean_;  // of the arena
  std::unique_ptr<StateArena> arena_;
  Stepper stepper_;
  PoolTurns::Member turn_;
  std::vector<Input> received_;
  SessionList removed_;
  std::list<std::shared_ptr<StateTask>> tasks_due_;
  Calls consumer_ended_;
  Calls starting_;  // have a permit, wait for blocks
  Calls running_;   // but for those below
  // Running calls that wait for their callers and take part in no step under way. A
  // round passes over them until something comes from outside or is due: who changes
  // one calls LookAtStalled first.
  Calls stalled_;
  // What they add to the counts of a round.
  struct Stalled {
    std::optional<Time> due;       // DueOf, the first
    std::optional<Time> deadline;  // likewise
    int64_t named = 0;
    int64_t bytes = 0;     // of their states
    int64_t promised = 0;  // blocks
  };
  Stalled stalled_counts_;
  bool woken_ = false;         // something has come from outside since the last round
  Calls ending_;               // end with the next Publish, and deliver then
  Calls delivering_;           // by Call::stalled_since, as is the next one
  Calls unread_;               // deliver too, and have not ended for kUnread since then
  Calls over_;                 // until the next Publish
  SessionList resting_;        // unused, with state; the longest unused first
  int64_t resting_named_ = 0;  // of them, those with a name
  SessionList left_;           // with an image; the one that left first is the first
  std::vector<ScheduledChunk> chunks_;
  std::vector<Call*> starved_;  // of the last plan
  bool unblocked_ = false;      // one that waited for blocks has got some
  bool admitted_ = false;       // a call has started since the last Publish
  Time round_;                  // when the round began
  Time idle_round_;             // the same by IdleNow
  int64_t planned_blocks_ = 0;  // unreserved ones that its chunks take
  int64_t planned_fixed_ = 0;   // blocks of fixed entries that they take at most
  // Since when there has been no memory, and nobody who could give some up: by the
  // machine's clock, because other threads are waited for.
  std::optional<Time> short_since_;
  // Likewise, since when others have been giving some up.
  std::optional<Time> promised_since_;
  bool recycling_ = false;  // blocks were, just before it
  // Of MakeRoom: states that this round may still look at, whether it has to go on in
  // the next one, and how many at the end of resting_ it found not worth dropping.
  int64_t room_left_ = 0;
  bool room_unfinished_ = false;
  size_t worthless_ = 0;
  CallbackList callbacks_;             // due after this round
  CallbackList later_;                 // due CallbackThreads::kDelay after it
  int32_t pins_ = 0;                   // states that other threads use
  bool busy_ = false;                  // the last round did something
  std::optional<Time> last_step_end_;  // absent after a pause
  Time step_begin_;                    // of the oldest step under way
  int32_t waiting_ends_ = 0;           // calls with an `end_later`
  std::optional<Time> restart_at_;     // the device is lost until then at least
  int32_t endings_ = 0;                // calls with an `ending`
  int32_t ended_permits_ = 0;          // of calls that ended in this round
  int32_t ended_named_ = 0;            // of them, calls on sessions
  // Tokens of calls that ended by themselves: as many as fit, for the estimate.
  std::vector<int64_t> ended_generated_;
  std::optional<LoadEstimate::Duration> step_interval_;
  int64_t step_tokens_ = 0;  // of the steps of the round
  Counts counts_;

  std::thread thread_;  // started by Start; joined by Stop, which one thread calls
};

}  // namespace mnemon
