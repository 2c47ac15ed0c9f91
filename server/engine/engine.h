// SPDX-License-Identifier: MIT
// The engine: checks requests, finds the model and the session that they name, and
// hands them to the runner of that model. Depends on neither gRPC nor torch.
//
// A session has a history of n tokens of which its state has computed s <= n; at rest
// the last token is not computed, so a continuation always has something to compute.
//
// A call on a session that ends other than OK before its first token leaves the session
// and its remembered request ids as they were: the same call may be repeated. After the
// first token the prompt stays. A cancelled or idle call then cuts the history to the
// last delivered token; after any other error the tokens generated so far are still
// delivered, and the history ends with them. A transport drops retry_after once a token
// was delivered.
//
// Errors carry an ErrorDetail: SESSION_NOT_FOUND, SESSION_EXPIRED, SESSION_EXISTS,
// REQUEST_ID_REUSED, REQUEST_REPEATED, REQUEST_UNKNOWN, STREAM_RESUMED,
// INDEX_OUT_OF_RANGE, TOKEN_COUNT_MISMATCH, SESSION_BUSY, MODEL_KIND (an encoder does
// not generate, a decoder does not predict), SESSION_DELETED, SESSION_PAUSED,
// SESSION_LIMIT, QUEUE_FULL, DEADLINE_UNREACHABLE, DRAINING, MODEL_NOT_FOUND,
// CONTEXT_LIMIT, NO_TOKENIZER, INVALID_VALUE, UNKNOWN_CHARACTER, NON_FINITE_LOGITS,
// NON_FINITE_STATE, NO_FREE_BLOCKS, MEMORY_LIMIT, CALLER_IDLE, NO_TOKEN_ALLOWED
// (logit_bias forbids all that the model could give), MODEL_MISMATCH (the session
// belongs to another model), MODEL_FAILURE, OUT_OF_MEMORY, DEVICE_LOST (the device that
// computes the model; the state is computed again).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/memory/byte_budget.h"
#include "server/durability/session_persistence.h"
#include "server/engine/engine_stats.h"
#include "server/requests/engine_options.h"
#include "server/requests/request.h"
#include "server/run/predict_runner.h"
#include "server/run/score_call.h"
#include "server/streams/token_stream.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

struct EngineParts;
class NamedSessions;

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
  // are due, and joins the threads: not on a callback thread (in on_ready or on_done).
  // No method may be under way. Streams may outlive the engine.
  ~Engine();

  std::vector<ModelFacts> ListModels() const;
  // Empty `name` means the only model.
  absl::StatusOr<ModelFacts> GetModel(const std::string& name) const;
  // The sampling of calls that ask for none; the plain one if the model is not loaded.
  RequestedSampling DefaultSampling(const std::string& name) const;

  // Methods that create or change a stored session answer when the change is synced. A
  // reason of SessionStore (server/store/session_store.h) says why it cannot be stored;
  // GetSession tells whether a change that was refused so is there. Without a store
  // on_done is called at once. The forms without on_done wait for the store. on_done is
  // called once unless the method returns an error: with UNAVAILABLE, NO_ANSWER, when
  // nothing answers within Waiters::kBound (kTransferBound for an export, an import or
  // a proof), and with UNAVAILABLE, DRAINING, when the engine ends first.
  //
  // A method that uses a session reads its history from the store, on the calling
  // thread, unless it is in memory. DATA_LOSS, SESSION_DAMAGED; FAILED_PRECONDITION,
  // MODEL_FINGERPRINT, for a session of a model that is not loaded.

  // Ids are 1 to 63 characters of a-z, 0-9 and '-', starting with a letter or digit.
  absl::Status CreateSession(const CreateSessionRequest& request,
                             OnAnswer<SessionFacts> on_done);
  absl::StatusOr<SessionFacts> CreateSession(const CreateSessionRequest& request);
  absl::StatusOr<SessionFacts> GetSession(const std::string& id);
  // The name of the session's model, without a look at the store. NOT_FOUND also for an
  // unusable session.
  absl::StatusOr<std::string> ModelOfSession(const std::string& id) const;
  // Works between two steps of the model. OUT_OF_RANGE, BEYOND_HISTORY.
  absl::Status ReadHistory(const ReadHistoryRequest& request,
                           OnAnswer<HistoryPart> on_done);
  // INVALID_ARGUMENT names the field. A session that exists from the first page to the
  // last is listed once, unless its place in the order changes meanwhile. O(log n) for
  // each session that is looked at: all n for another order than by name.
  absl::StatusOr<SessionPage> ListSessions(const ListSessionsRequest& request);
  // ABORTED, ETAG_MISMATCH.
  absl::Status UpdateSession(const UpdateSessionRequest& request,
                             OnAnswer<SessionFacts> on_done);
  absl::StatusOr<SessionFacts> UpdateSession(const UpdateSessionRequest& request);
  // A running call on the session ends with ABORTED, SESSION_DELETED. An `etag` that is
  // not empty must be the present one, else ABORTED, ETAG_MISMATCH.
  absl::Status DeleteSession(const std::string& id, const std::string& etag,
                             OnSynced on_done);
  absl::Status DeleteSession(const std::string& id, const std::string& etag = "");

  // These three work between two steps of the model.
  // Makes a session with the history and state of another one, on which a call may run.
  // OUT_OF_RANGE, BEYOND_HISTORY; else as CreateSession.
  absl::Status ForkSession(const ForkSessionRequest& request,
                           OnAnswer<SessionFacts> on_done);
  // Forgets the newest tokens, or becomes what a checkpoint holds. ABORTED,
  // SESSION_BUSY while a call holds the session; ETAG_MISMATCH; OUT_OF_RANGE,
  // BEYOND_HISTORY; NOT_FOUND, CHECKPOINT_NOT_FOUND.
  absl::Status RewindSession(const RewindSessionRequest& request,
                             OnAnswer<SessionFacts> on_done);
  // Keeps history and state as they are now until the session is gone; while a call
  // runs, those at its last delivered token. ALREADY_EXISTS, CHECKPOINT_EXISTS,
  // REQUEST_ID_REUSED; RESOURCE_EXHAUSTED, CHECKPOINT_LIMIT, MEMORY_LIMIT.
  absl::Status CheckpointSession(const CheckpointSessionRequest& request,
                                 OnAnswer<CheckpointFacts> on_done);

  // These three read and write states on a thread of their own; at most kTransfers are
  // under way at once, else RESOURCE_EXHAUSTED, TRANSFER_LIMIT.
  static constexpr int32_t kTransfers = 16;
  // The session as one snapshot; while a call runs, as a fork of it would be.
  // MEMORY_LIMIT, DEVICE_LOST.
  absl::Status ExportSession(const std::string& id, OnAnswer<ExportedSession> on_done);
  // A session from a snapshot, which is made only if the whole snapshot is in order.
  // The errors of DecodeSnapshot (server/snapshots/snapshot.h) and CreateSession;
  // FAILED_PRECONDITION, MODEL_FINGERPRINT.
  absl::Status ImportSession(ImportSessionRequest request,
                             OnAnswer<SessionFacts> on_done);
  // Counts within the engine's memory what a transport has received of an import.
  ByteCharge QueueCharge() const;
  // The error for a transport whose charge was refused: MEMORY_LIMIT. Others then give
  // memory up.
  absl::Status MemoryLimitReached(int64_t bytes) const;
  // Checks the state of the session, and computes it again on request, as a call
  // without a session that takes its turn among others.
  absl::Status VerifySession(const VerifySessionRequest& request,
                             OnAnswer<VerifiedSession> on_done);

  // Text to tokens and back. FAILED_PRECONDITION, NO_TOKENIZER. At most 512 KiB of
  // text, and a million tokens of 1 MiB of text, each below V, so that the answer fits
  // into a message of 4 MiB; else INVALID_ARGUMENT, field "text" or "tokens".
  absl::StatusOr<TokenizedText> Tokenize(const std::string& model,
                                         const std::string& text) const;
  absl::StatusOr<DetokenizedText> Detokenize(const std::string& model,
                                             const std::vector<int32_t>& tokens) const;

  // Checks the request, encodes the prompt, and queues it. The stream ends with OK and
  // FinishFacts, or with the error that ended it. `on_ready`: see TokenStream.
  absl::StatusOr<std::shared_ptr<TokenStream>> Generate(const GenerateRequest& request,
                                                        std::function<void()> on_ready);
  // Tells the observer that a request was refused. The transport that answers the
  // caller calls it once for each, wherever the refusal comes from.
  void RecordRefusal(const GenerateRequest& request, const absl::Status& status);

  // Scores tokens under the model's unmodified distribution. With a session it works on
  // a copy of the session's state. ABORTED, TOKEN_COUNT_MISMATCH.
  absl::StatusOr<ScoreCall> Score(const ScoreRequest& request,
                                  std::function<void()> on_ready);

  // Runs an encoder. `on_done` is called once, on a callback thread, unless an error is
  // returned. The returned function cancels, from any thread and at any time: on_done
  // then gets CANCELLED, unless the prediction ends before the runner checks.
  absl::StatusOr<std::function<void()>> Predict(PredictRequest request,
                                                OnPredicted on_done);

  // Refuses new sessions and calls from now on: UNAVAILABLE, DRAINING. Others go on.
  void Drain();
  // Waits until no call is queued or running, for `timeout` at most, by the machine's
  // clock whatever Options::clock is. True: none is; tokens may still wait in streams,
  // and callbacks may still be due.
  bool WaitIdle(std::chrono::milliseconds timeout);

  // Writes the changes of all stored sessions. False: not all by then.
  bool SaveSessions(std::chrono::steady_clock::time_point deadline);
  // The number of named sessions that end with the process. O(n log n).
  int64_t CountUnstored() const;
  // What Create found in the store.
  const Recovery& recovery() const { return recovery_; }

  EngineStats Stats() const;
  // What waits for an answer; waits for nothing itself.
  WaiterStats waiters() const;

 private:
  explicit Engine(std::unique_ptr<EngineParts> parts);
  absl::Status Start(const std::vector<EngineModel>& models);

  // Constant after Create, but for draining.
  const std::unique_ptr<EngineParts> parts_;
  const std::unique_ptr<NamedSessions> named_;
  Recovery recovery_;
  // Transfers under way. Shared, because what was exported may outlive the engine.
  const std::shared_ptr<std::atomic<int32_t>> transfers_;
};

}  // namespace mnemon
