// SPDX-License-Identifier: MIT
// The engine behind engine.h: bookkeeping under one mutex, model calls on one thread
// without it. See docs/engine_threads.md.
//
// Places: a model has Options::sessions of them. A named session holds one as long as
// it exists, a stateless call from its start to its end; only stateless calls wait for
// one, and only while another stateless call holds one, so every wait ends.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "server/engine/engine.h"
#include "server/engine/outbox.h"
#include "server/engine/scheduler.h"
#include "server/engine/session.h"
#include "server/engine/session_table.h"
#include "server/engine/stepper.h"

namespace mnemon {

// One call of an encoder. Constant after creation.
struct PredictJob {
  PredictRequest request;
  OnPredicted on_done;
};

// One model: a decoder with its sessions' memory, or a predictor, whose lane has jobs
// and nothing else.
struct Lane {
  Lane(size_t index, const EngineModel& model, std::unique_ptr<StateArena> arena);

  // The engine's mutex is held.
  ModelStats StatsLocked() const;

  // Constant after creation.
  const size_t index;  // among the lanes
  const EngineModel model;
  const int64_t vocab;           // V
  const int64_t context;         // tokens a session can feed
  const int64_t capacity_bytes;  // of all states

  // Guarded by EngineCore::mutex_.
  int32_t places = 0;     // held by sessions and stateless calls
  int32_t stateless = 0;  // of them by stateless calls
  std::deque<std::shared_ptr<Call>> queue;
  std::vector<std::shared_ptr<Call>> starting;
  std::vector<std::shared_ptr<Call>> running;  // changed by the engine thread only
  std::vector<std::shared_ptr<Call>> delivering;
  std::vector<std::shared_ptr<Session>> to_release;  // deleted, perhaps with a slot
  std::vector<std::shared_ptr<Session>> to_settle;   // came to rest
  int64_t state_bytes = 0;
  std::deque<std::shared_ptr<PredictJob>> jobs;  // of a predictor

  // Owned by the engine thread.
  std::unique_ptr<StateArena> arena;  // null for a predictor
  std::optional<Stepper> stepper;     // absent likewise
  std::vector<Candidate> candidates;  // of `running`, in its order
  std::vector<Feed> feeds;
  int64_t last_served = -1;  // index of the candidate whose prompt was fed last
};

// Public methods are safe for concurrent use. Shared, because a stream's callback may
// come when the engine is gone.
class EngineCore : public std::enable_shared_from_this<EngineCore> {
 public:
  EngineCore(std::vector<std::unique_ptr<Lane>> lanes, const Engine::Options& options);

  // As in engine.h.
  std::vector<ModelFacts> ListModels() const;
  absl::StatusOr<ModelFacts> GetModel(const std::string& name) const;
  absl::StatusOr<SessionFacts> CreateSession(const CreateSessionRequest& request);
  absl::StatusOr<SessionFacts> GetSession(const std::string& id);
  absl::StatusOr<SessionPage> ListSessions(int32_t page_size,
                                           const std::string& page_token);
  absl::Status DeleteSession(const std::string& id);
  absl::StatusOr<TokenizedText> Tokenize(const std::string& model,
                                         const std::string& text) const;
  absl::StatusOr<DetokenizedText> Detokenize(const std::string& model,
                                             const std::vector<int32_t>& tokens) const;
  absl::StatusOr<std::shared_ptr<TokenStream>> Generate(const GenerateRequest& request,
                                                        std::function<void()> on_ready);
  // Tells the observer, if any.
  void TellRefused(const GenerateRequest& request, const absl::Status& status);
  absl::StatusOr<ScoreCall> Score(const ScoreRequest& request,
                                  std::function<void()> on_ready);
  absl::StatusOr<std::function<void()>> Predict(PredictRequest request,
                                                OnPredicted on_done);
  void Drain();
  bool WaitIdle(std::chrono::milliseconds timeout);
  EngineStats Stats();

  // The engine thread's body; returns after Stop, when all streams were ended.
  void Run();
  void Stop();

 private:
  using Lock = std::lock_guard<std::mutex>;

  // Any thread. "Locked": mutex_ is held.
  absl::StatusOr<size_t> LaneIndex(const std::string& name) const;
  // As above; UNIMPLEMENTED, MODEL_KIND, for a predictor.
  absl::StatusOr<size_t> DecoderLane(const std::string& name) const;
  absl::StatusOr<std::shared_ptr<Session>> FindLocked(const std::string& id);
  absl::StatusOr<std::shared_ptr<Session>> SessionFor(const std::string& id,
                                                      const std::string& model);
  // SESSION_NOT_FOUND or SESSION_BUSY.
  absl::Status CheckAtRestLocked(const Session& session) const;
  void OpenStream(const std::shared_ptr<Call>& call, const Tokenizer* tokenizer,
                  std::function<void()> on_ready,
                  const std::vector<std::string>& stop_strings);
  // See ScoreCall. REQUIRES: call.scoring.
  absl::StatusOr<int64_t> AppendInput(Call& call, const Prompt& part);
  void CloseInput(Call& call);
  void CancelPredict(size_t index, const std::shared_ptr<PredictJob>& job);
  absl::Status EnqueueLocked(const std::shared_ptr<Call>& call);
  SessionFacts FactsLocked(const Session& session) const;
  void DropExpiredLocked();
  // The session is out of the table: its place is free, its slot will be.
  void DropLocked(const std::shared_ptr<Session>& session);
  void FreePlaceLocked(Lane& lane);
  // The call is over and its session, if it still exists, at rest.
  void ReleaseSessionLocked(Lane& lane, Call& call);
  // What is not delivered did not happen.
  void CutHistoryLocked(Call& call);
  // The consumer took something or cancelled.
  void OnStreamEvent(const std::shared_ptr<Call>& call);
  void WakeLocked();
  bool IdleLocked() const;

  // Engine thread.
  // Waits for something to do; false = stop.
  bool AwaitWork(bool more);
  // When a session expires or a running call's time is up.
  std::optional<std::chrono::steady_clock::time_point> NextDueLocked() const;
  // One step of one model; whether it did anything.
  bool Round(Lane& lane);
  void RunStep(Lane& lane, std::span<Feed> feeds);
  bool PredictRound(Lane& lane);
  // Null when there is none.
  std::shared_ptr<PredictJob> NextJob(Lane& lane);
  void CollectLocked(Lane& lane);
  void AdmitLocked(Lane& lane);
  // From starting to running, in which whatever ends a call looks for it.
  void TakeUpLocked(Lane& lane, const std::shared_ptr<Call>& call);
  absl::Status AdmitCallLocked(Lane& lane, const std::shared_ptr<Call>& call);
  absl::Status AdmitScoringLocked(Lane& lane, Call& call);
  // Parts of scoring calls join their histories; closed ones that are done end.
  void TakeInputsLocked(Lane& lane);
  void CommitJudgedLocked(const Feed& feed);
  void PlanLocked(Lane& lane);
  void CommitLocked(Lane& lane);
  void CommitFeedLocked(Lane& lane, const Feed& feed);
  // Blocks that feeding `tokens` more to the session takes from the pool.
  int64_t BlocksFor(const Lane& lane, const Session& session, int64_t tokens) const;
  // Ends a running call: for a session whose call was cancelled at its last delivered
  // token, else at its last one. `call` is a value because it leaves the list it is in.
  void EndLocked(Lane& lane, std::shared_ptr<Call> call, absl::Status status,
                 const std::optional<FinishFacts>& facts = std::nullopt);
  // With the times that the call took.
  std::optional<FinishFacts> Timed(const Call& call,
                                   std::optional<FinishFacts> facts) const;
  void EndAll(Lane& lane, const absl::Status& status);
  void UpdateBytesLocked(Lane& lane, Session& session);

  const Engine::Options options_;
  const std::vector<std::unique_ptr<Lane>> lanes_;

  std::mutex mutex_;              // guards what follows up to out_
  std::condition_variable work_;  // wake_ became true
  std::condition_variable idle_;  // the engine thread found nothing to do
  SessionTable table_;
  int64_t queued_ = 0;
  bool draining_ = false;
  bool stopping_ = false;
  bool wake_ = false;
  bool in_round_ = false;
  int64_t steps_ = 0;
  int64_t tokens_fed_ = 0;
  int64_t tokens_generated_ = 0;
  int64_t sessions_created_ = 0;
  int64_t sessions_expired_ = 0;

  Outbox out_;  // owned by the engine thread
};

}  // namespace mnemon
