// SPDX-License-Identifier: MIT
// The engine: checks requests, finds the model and the session that they name, and
// queues them with the runner of that model. Depends on neither gRPC nor torch.
//
// Computed tokens: a session has a history of n tokens of which its state has computed
// s <= n; at rest the last token is not computed, so a continuation always has
// something to compute. Cancelling cuts the history to the last delivered token.
//
// A call on a session that ends other than OK before its first token leaves the session
// and its remembered request ids as they were: the same call may be repeated. After the
// first token the prompt stays. A cancelled or idle call then leaves the history at the
// last delivered token; after any other error the tokens generated so far are still
// delivered, and the history ends with them. A transport drops retry_after once a token
// was delivered.
//
// Errors carry an ErrorDetail: SESSION_NOT_FOUND, SESSION_EXPIRED, SESSION_EXISTS,
// REQUEST_ID_REUSED, REQUEST_REPEATED, REQUEST_UNKNOWN, STREAM_RESUMED,
// INDEX_OUT_OF_RANGE, TOKEN_COUNT_MISMATCH, SESSION_BUSY,
// MODEL_KIND (an encoder does not generate, a decoder does not predict),
// SESSION_DELETED, SESSION_PAUSED, SESSION_LIMIT, QUEUE_FULL, DEADLINE_UNREACHABLE,
// DRAINING, MODEL_NOT_FOUND, CONTEXT_LIMIT, NO_TOKENIZER, INVALID_VALUE,
// UNKNOWN_CHARACTER, NON_FINITE_LOGITS, NON_FINITE_STATE, NO_FREE_BLOCKS, MEMORY_LIMIT,
// CALLER_IDLE, NO_TOKEN_ALLOWED (logit_bias forbids all that the model could give),
// MODEL_MISMATCH (the session belongs to another model), MODEL_FAILURE, OUT_OF_MEMORY,
// DEVICE_LOST (the device that computes the model; the state is computed again).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/out_of_memory.h"
#include "server/engine/engine_context.h"
#include "server/engine/engine_model.h"
#include "server/engine/engine_options.h"
#include "server/engine/model_runner.h"
#include "server/engine/one_answer.h"
#include "server/engine/predict_runner.h"
#include "server/engine/request.h"
#include "server/engine/request_check.h"
#include "server/engine/score_call.h"
#include "server/engine/session_persistence.h"
#include "server/engine/session_tasks.h"
#include "server/engine/token_stream.h"

namespace mnemon {

// All methods are safe for concurrent use and do not wait for a model call, but for the
// destructor and WaitIdle.
class Engine {
 public:
  using Options = EngineOptions;

  // Creates arenas and starts the threads. INVALID_ARGUMENT for bad options, no models
  // or duplicate names; RESOURCE_EXHAUSTED, STATE_BYTES, when state_bytes does not hold
  // one session; RESOURCE_EXHAUSTED when no thread can be started.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(std::vector<EngineModel> models,
                                                        const Options& options);
  // Ends streams and predictions with UNAVAILABLE, DRAINING, runs the callbacks that
  // are due, and joins the threads. Must not run on a callback thread (in on_ready or
  // on_done), which it would join. No method may be under way. Streams may outlive the
  // engine.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  std::vector<ModelFacts> ListModels() const;
  // Empty `name` means the only model.
  absl::StatusOr<ModelFacts> GetModel(const std::string& name) const;
  // The sampling of calls that ask for none; of a model that is not loaded the plain
  // one.
  RequestedSampling DefaultSampling(const std::string& name) const;

  // Where sessions are stored, what creates or changes one answers when that is synced;
  // with OK nothing of it can be lost any more. Reasons of SessionStore
  // (server/state/session_store.h) say why it cannot be stored; whether a change that
  // was refused so is there can be asked for. Without a store on_done is called at
  // once. The forms without it wait for the store. on_done is called once, whatever
  // happens: where nothing answers within Waiters::kBound (an export, an import or a
  // proof: kTransferBound), or the engine ends first, with UNAVAILABLE, NO_ANSWER or
  // DRAINING. Not where the method returns an error.
  //
  // A method that uses a session reads the history from the store, on the calling
  // thread, where it is not in memory. DATA_LOSS, SESSION_DAMAGED; FAILED_PRECONDITION,
  // MODEL_FINGERPRINT, for one of a model that is not loaded.

  // Ids are 1 to 63 characters of a-z, 0-9 and '-', starting with a letter or digit.
  absl::Status CreateSession(const CreateSessionRequest& request,
                             OnAnswer<SessionFacts> on_done);
  absl::StatusOr<SessionFacts> CreateSession(const CreateSessionRequest& request);
  absl::StatusOr<SessionFacts> GetSession(const std::string& id);
  // The name of the model of a session, without a look at the store. NOT_FOUND also of
  // one that could not be used.
  absl::StatusOr<std::string> ModelOfSession(const std::string& id) const;
  // Between two steps of the model. OUT_OF_RANGE, BEYOND_HISTORY.
  absl::Status ReadHistory(const ReadHistoryRequest& request,
                           OnAnswer<HistoryPart> on_done);
  // INVALID_ARGUMENT names the field of the request. All sessions that are there from
  // the first page to the last are listed once, but for those whose place in the order
  // changes meanwhile. O(log n) for each of the n sessions that it has to look at: all
  // of them for another order than by name.
  absl::StatusOr<SessionPage> ListSessions(const ListSessionsRequest& request);
  // ABORTED, ETAG_MISMATCH.
  absl::Status UpdateSession(const UpdateSessionRequest& request,
                             OnAnswer<SessionFacts> on_done);
  absl::StatusOr<SessionFacts> UpdateSession(const UpdateSessionRequest& request);
  // A running call on the session ends with ABORTED, SESSION_DELETED. `etag`: not
  // empty: must be the present one, else ABORTED, ETAG_MISMATCH.
  absl::Status DeleteSession(const std::string& id, const std::string& etag,
                             OnSynced on_done);
  absl::Status DeleteSession(const std::string& id, const std::string& etag = "");

  // These three work between two steps of the model. An error that is returned comes in
  // place of the answer.
  // A session with the history and state of another one, also of one on which a call
  // runs. OUT_OF_RANGE, BEYOND_HISTORY; else as CreateSession.
  absl::Status ForkSession(const ForkSessionRequest& request,
                           OnAnswer<SessionFacts> on_done);
  // Forgets the newest tokens, or goes back, or over, to a checkpoint. ABORTED,
  // SESSION_BUSY while a call holds the session; ETAG_MISMATCH; OUT_OF_RANGE,
  // BEYOND_HISTORY; NOT_FOUND, CHECKPOINT_NOT_FOUND.
  absl::Status RewindSession(const RewindSessionRequest& request,
                             OnAnswer<SessionFacts> on_done);
  // Keeps history and state as they are now, of a session on which a call runs those at
  // its last delivered token, until the session is gone. ALREADY_EXISTS,
  // CHECKPOINT_EXISTS, REQUEST_ID_REUSED; RESOURCE_EXHAUSTED, CHECKPOINT_LIMIT,
  // MEMORY_LIMIT.
  absl::Status CheckpointSession(const CheckpointSessionRequest& request,
                                 OnAnswer<CheckpointFacts> on_done);

  // These three read and write states on a thread of their own; at most kTransfers are
  // under way at once, else RESOURCE_EXHAUSTED, TRANSFER_LIMIT.
  static constexpr int32_t kTransfers = 16;
  // The session as one snapshot; of one on which a call runs as a fork would be.
  // MEMORY_LIMIT, DEVICE_LOST.
  absl::Status ExportSession(const std::string& id, OnAnswer<ExportedSession> on_done);
  // The reverse. Nothing is made unless the whole snapshot is in order. The errors of
  // DecodeSnapshot (server/state/snapshot.h) and CreateSession; FAILED_PRECONDITION,
  // MODEL_FINGERPRINT.
  absl::Status ImportSession(ImportSessionRequest request,
                             OnAnswer<SessionFacts> on_done);
  // Counts what a transport has received of an import, within the engine's memory.
  ByteCharge QueueCharge() const;
  // MEMORY_LIMIT, where that is refused.
  absl::Status MemoryLimitReached(int64_t bytes) const {
    return context_->MemoryLimit(bytes);
  }
  // Checks the state of the session, and computes it again on request, as a call
  // without a session that takes its turn among others.
  absl::Status VerifySession(const VerifySessionRequest& request,
                             OnAnswer<VerifiedSession> on_done);

  // Text to tokens and back. Empty `model` means the only one. FAILED_PRECONDITION,
  // NO_TOKENIZER. At most 512 KiB of text, and a million tokens of 1 MiB of text, each
  // below V, so that the answer fits into a message of 4 MiB; else INVALID_ARGUMENT,
  // field "text" or "tokens".
  absl::StatusOr<TokenizedText> Tokenize(const std::string& model,
                                         const std::string& text) const;
  absl::StatusOr<DetokenizedText> Detokenize(const std::string& model,
                                             const std::vector<int32_t>& tokens) const;

  // Checks the request, encodes the prompt, and queues it. The stream ends with OK and
  // FinishFacts, or with the error that ended it. `on_ready`: see TokenStream.
  absl::StatusOr<std::shared_ptr<TokenStream>> Generate(const GenerateRequest& request,
                                                        std::function<void()> on_ready);
  // Records with the observer that a request was refused: called once for each by the
  // transport that answers the caller, wherever the refusal comes from.
  void RecordRefusal(const GenerateRequest& request, const absl::Status& status);

  // Scores tokens under the model's unmodified distribution. With a session it works on
  // a copy of the session's state. ABORTED, TOKEN_COUNT_MISMATCH.
  absl::StatusOr<ScoreCall> Score(const ScoreRequest& request,
                                  std::function<void()> on_ready);

  // Runs an encoder. `on_done` is called once, on a callback thread; not when an error
  // is returned. The returned function cancels, from any thread and at any time:
  // on_done then gets CANCELLED, unless the prediction ends before the
  // runner checks.
  absl::StatusOr<std::function<void()>> Predict(PredictRequest request,
                                                OnPredicted on_done);

  // From now on new sessions and calls are refused with UNAVAILABLE, DRAINING; queued
  // and running calls go on.
  void Drain();
  // Waits until no call is queued or running, at most `timeout`: true when none is.
  // Measured by the machine's clock, whatever Options::clock is. Tokens may still wait
  // in streams, and callbacks may still be due.
  bool WaitIdle(std::chrono::milliseconds timeout);

  // Writes what is new of all stored sessions; false when not all is written by then.
  bool SaveSessions(std::chrono::steady_clock::time_point deadline);
  // Named sessions that end with the process. O(n log n).
  int64_t CountUnstored() const;
  // What Create found in the store.
  const Recovery& recovery() const { return recovery_; }

  EngineStats Stats() const;
  // What waits for an answer; waits for nothing itself.
  WaiterStats waiters() const { return context_->waiters.stats(); }

 private:
  // One of the two is set.
  struct Runner {
    std::shared_ptr<ModelRunner> decoder;
    std::shared_ptr<PredictRunner> predictor;
    const EngineModel& model() const {
      return decoder ? decoder->model() : predictor->model();
    }
  };

  // `vocabs`: V of each model, 0 of a predictor.
  Engine(const Options& options, const std::vector<int64_t>& vocabs);
  absl::Status StartRunners(const std::vector<EngineModel>& models);

  absl::StatusOr<size_t> FindModel(const std::string& name) const;
  // As above; UNIMPLEMENTED, MODEL_KIND, for a predictor.
  absl::StatusOr<size_t> FindDecoder(const std::string& name) const;
  // NOT_FOUND; why what the store has of it cannot be served.
  absl::StatusOr<std::shared_ptr<Session>> FindNamed(const std::string& id);
  // That of the directory. One that sleeps waits for room for a while; MEMORY_LIMIT.
  absl::StatusOr<std::shared_ptr<Session>> FindAwake(const std::string& id);
  // With its history in memory.
  absl::StatusOr<std::shared_ptr<Session>> FindSession(const std::string& id);
  // What an earlier request with this id has made, which does not sleep as long as the
  // pointer exists; null: nothing that is still there.
  absl::StatusOr<std::shared_ptr<Session>> MadeBefore(const std::string& request_id);
  // Gives a session that no directory knows its place in the store, if there is one.
  // FAILED_PRECONDITION, NO_STORE; why the store takes nothing.
  absl::Status MakeDurable(const std::shared_ptr<Session>& session,
                           const std::optional<Durability>& wanted,
                           Durability otherwise, bool has_history) const;
  // Answers with the session's facts when what has changed of it is synced.
  void AnswerWhenSynced(const std::shared_ptr<Session>& session,
                        OnAnswer<SessionFacts> on_done) const;
  // The same of one that was made just now (`fresh`), or by an earlier request: where a
  // fresh one cannot be stored it is removed, so that the request can be repeated.
  void AnswerWhenMade(const std::shared_ptr<Session>& session, bool fresh,
                      OnAnswer<SessionFacts> on_done);
  // Of a session that left the directory: it leaves the store and memory.
  void Discard(std::shared_ptr<Session> session, OnSynced on_done);
  // `on_done` has to answer within the bound of `kind`, unless `body` returns an error
  // or throws std::bad_alloc: then that is returned, and it is not called. Where it was
  // called all the same the result is OK.
  template <class Outcome, class Body>
  absl::Status Begin(WaiterKind kind, const OneAnswer<Outcome>& on_done,
                     const Body& body) const {
    // `body` may move from `on_done`.
    const OneAnswer<Outcome> kept = on_done;
    kept.Watch(context_->waiters, kind);
    const absl::Status begun = CatchOutOfMemory({}, body);
    return begun.ok() || !kept.Dismiss() ? absl::OkStatus() : begun;
  }
  // `added`: by the call that is to be answered; else it repeats the one that did, and
  // the checkpoint stays whatever becomes of this one.
  void AnswerWhenStored(const std::shared_ptr<Session>& session,
                        const SessionCheckpoint& checkpoint, bool added,
                        const OnAnswer<CheckpointFacts>& on_done);
  // Of one that the store has refused. Once, by the call that added it.
  void DropCheckpoint(const std::shared_ptr<Session>& session,
                      const SessionCheckpoint& checkpoint);
  Durability default_durability() const;
  // The session of a call, or a new one for a stateless call.
  absl::StatusOr<std::shared_ptr<Session>> SessionFor(const std::string& id,
                                                      const std::string& model);
  SessionFacts FactsOf(const Session& session) const;
  static CheckpointFacts FactsOf(const SessionCheckpoint& checkpoint);
  // Disk: the history, or a state that the next call goes on from, is in the store
  // alone.
  SessionTier TierOf(const Session& session, SessionState state) const;
  // A session that is in no directory yet. MEMORY_LIMIT; DRAINING.
  absl::StatusOr<std::shared_ptr<Session>> MakeSession(const std::string& id,
                                                       size_t model);
  void OpenStream(const std::shared_ptr<Call>& call, const Tokenizer* tokenizer,
                  std::vector<std::string> stop_strings,
                  std::function<void()> on_ready) const;
  // A session that no directory gets: for a copy. MEMORY_LIMIT.
  std::shared_ptr<Session> MakeCopy(size_t model) const;
  // `on_done`, which also counts the transfer, or TRANSFER_LIMIT: for so long at most.
  template <class T>
  absl::StatusOr<OnAnswer<T>> BeginTransfer(OnAnswer<T> on_done);
  // Counts one as long as it is held. TRANSFER_LIMIT.
  absl::StatusOr<std::shared_ptr<void>> CountTransfer();
  // Calls `next`, perhaps on another thread, once the state of a session at rest that
  // lies in the store is back, where it can be.
  void WithState(const std::shared_ptr<Session>& session,
                 const std::function<void()>& next) const;
  // Queues a call without prompt that keeps the state of a session without a name.
  absl::Status ReplayHistory(const std::shared_ptr<Session>& session,
                             OneAnswer<absl::Status> on_end) const;
  // A call, but for what its session's history decides.
  std::shared_ptr<Call> MakeCall(
      std::shared_ptr<Session> session, const CallRecord& record,
      std::optional<std::chrono::steady_clock::time_point> deadline,
      std::function<void()> on_ready) const;
  // Gives the call a copy of its session, which it holds from now on if it commits.
  absl::Status CopySource(const ScoreRequest& request, Call& call) const;
  // As SessionDirectory::Hold; ABORTED, SESSION_BUSY, when another call holds it.
  absl::Status Hold(Session& session, const std::string& request_id) const;
  absl::Status Busy(const Session& session) const;
  // Holds the session, if it has a name, and queues the call. A call that gives way is
  // ended first: then errors go to the stream.
  absl::Status Submit(const std::shared_ptr<Call>& call,
                      std::span<const int32_t> prompt_tokens) const;
  // Whether the call holds its session, after another one has given way, or not.
  enum class Entry { kHeld, kAfterAnother, kBusy };
  absl::StatusOr<Entry> Enter(Call& call) const;
  // Of a session that a call holds, and that it will not use.
  void LetGo(Call& call) const;
  // REQUIRES: the session is held, if it has a name.
  absl::Status SubmitHeld(const std::shared_ptr<Call>& call,
                          std::span<const int32_t> prompt_tokens) const;
  // Behind the task that made another call give way: as Submit; an error is the end of
  // the stream. A resume waits for a call before it that leaves the session.
  void SubmitAfterOther(const std::shared_ptr<Call>& call,
                        const std::vector<int32_t>& prompt, absl::Status ended) const;
  // As SubmitHeld; where the session's state comes from the store first, later, and
  // errors then end the stream.
  absl::Status SubmitRestored(const std::shared_ptr<Call>& call,
                              std::span<const int32_t> prompt_tokens) const;
  // The call that the request resumes or repeats; null: none, it is a new one. The
  // errors of resumes and repetitions.
  absl::StatusOr<std::shared_ptr<const CallRecord>> FindResumed(
      const GenerateRequest& request, const Session& session) const;
  absl::StatusOr<std::shared_ptr<TokenStream>> Resume(
      std::shared_ptr<Session> session, const CallRecord& record, int64_t after,
      std::optional<std::chrono::steady_clock::time_point> deadline,
      std::function<void()> on_ready) const;
  // Prepares a call that resumes another one, and fills its stream with what is there.
  // True: with the end, too, and nothing is left to do. `prompt`: to be computed again.
  // REQUIRES: it holds the session.
  absl::StatusOr<bool> TakeUp(Call& call, std::vector<int32_t>& prompt) const;
  // Fills in what depends on the history. MEMORY_LIMIT.
  absl::Status CompleteRecord(Call& call, std::span<const int32_t> prompt) const;
  CallLimits LimitsOf(const ModelRunner& runner) const;
  // As SessionPersistence::MakeRoom where there is a store; else, and for no session,
  // nobody waits.
  bool MakeRoom(int64_t bytes, std::optional<SessionPersistence::Short> of,
                const std::function<bool()>& fits) const;
  // What a new session or checkpoint takes; MEMORY_LIMIT.
  absl::Status ChargeNew(Session& session, int64_t bytes) const;
  // To the observer.
  void Report(SessionEvent event) const;
  // Sessions whose time has come, up to kExpiredPerCall, without the store. False: all.
  bool RemoveExpired();
  static constexpr size_t kExpiredPerCall = 2048;
  // The session, if its time has come, also one that sleeps, which is read from the
  // store. Why it is still there.
  absl::Status Expire(const std::string& id);
  void Forget(std::shared_ptr<Session> expired);
  bool stopping() const;
  // The body of the thread that removes expired sessions.
  void ExpireSessions();
  // The body of the thread that ends what waits too long. It never waits for the store,
  // nor for a lock that anybody has while he reads it; for memory it may, where what
  // was told makes a call go on.
  void EndOverdue();

  const std::shared_ptr<EngineContext> context_;
  std::shared_ptr<SessionPersistence> persistence_;  // null without a store
  Recovery recovery_;
  std::vector<Runner> runners_;  // constant after Create

  // Started by Create, joined by the destructor.
  std::thread expiry_;
  std::thread overdue_;

  const std::shared_ptr<std::atomic<int32_t>> transfers_ =
      std::make_shared<std::atomic<int32_t>>(0);

  mutable std::mutex mutex_;  // guards the flags
  std::condition_variable changed_;
  bool draining_ = false;
  bool stopping_ = false;
  bool stopped_ = false;  // but for what waits for an answer
  std::condition_variable all_stopped_;
};

}  // namespace mnemon
