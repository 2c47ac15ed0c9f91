// SPDX-License-Identifier: MIT
// The engine: one thread that owns, per loaded model, an arena and a decoder, and makes
// all model calls. Sessions live in memory. Knows no gRPC and no torch.
//
// Continuous batching: every running session takes part in every Step of its model
// until it finishes, pauses (slow reader) or is cancelled.
//
// Fed and unfed: a session has a history of n tokens of which its state has been fed
// s <= n; at rest the last token is unfed, so a continuation always has something to
// feed. Cancelling cuts the history to the last delivered token; a state fed further is
// rewound when next used (growing entries by truncation, fixed ones from a shadow
// copy).
//
// Errors carry an ErrorDetail: SESSION_NOT_FOUND, SESSION_EXPIRED, SESSION_EXISTS,
// REQUEST_ID_REUSED, REQUEST_REPEATED, SESSION_BUSY,
// MODEL_KIND (an encoder does not generate, a decoder does not predict),
// SESSION_DELETED, SESSION_LIMIT, QUEUE_FULL, DRAINING, MODEL_NOT_FOUND, CONTEXT_LIMIT,
// NO_TOKENIZER, INVALID_VALUE, UNKNOWN_CHARACTER, NON_FINITE_LOGITS, NO_FREE_BLOCKS,
// NO_TOKEN_ALLOWED (logit_bias forbids all that the model could give),
// MODEL_MISMATCH (the session belongs to another model), MODEL_FAILURE, OUT_OF_MEMORY.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "model/decoder/decoder.h"
#include "model/text/tokenizer.h"
#include "server/engine/observer.h"
#include "server/engine/request.h"
#include "server/engine/token_stream.h"

namespace mnemon {

// One loaded model as the engine is handed it: either a decoder, which has sessions, or
// a predictor. What the pointers refer to outlives the engine; `tokenizer` may be null.
struct EngineModel {
  ModelFacts facts;
  Decoder* decoder = nullptr;
  Predictor* predictor = nullptr;
  const Tokenizer* tokenizer = nullptr;
};

// What one model does now.
struct ModelStats {
  std::string model;
  std::string architecture;
  int64_t running = 0;  // requests
  int64_t waiting = 0;
  int64_t sessions_queued = 0;
  int64_t sessions_running = 0;
  int64_t state_bytes = 0;
  int64_t state_capacity_bytes = 0;
};

// What the engine does now; for health, metrics and tests.
struct EngineStats {
  int64_t running = 0;
  int64_t queued = 0;
  int64_t sessions = 0;
  int64_t state_bytes = 0;
  int64_t steps = 0;
  int64_t tokens_fed = 0;
  int64_t tokens_generated = 0;
  int64_t sessions_created = 0;
  int64_t sessions_expired = 0;
  int64_t max_queued = 0;  // Options::max_queue
  bool draining = false;
  std::vector<ModelStats> models;  // in the order of Create
};

using OnPredicted = std::function<void(absl::StatusOr<Predictor::Output>)>;

// A running Score call, as its caller sees it. Safe for concurrent use.
struct ScoreCall {
  // Each judged token with its log-probability; ends with OK after `close`, when all
  // were judged. Cancelled like any other; a committed part stays in the session.
  std::shared_ptr<TokenStream> stream;
  // Hands over the next part and returns how many tokens of it will be judged: all but
  // the first one of a history. Errors are those of a prompt, field "prompt"; the part
  // is then without effect. A caller waits for the judgements before the next part.
  std::function<absl::StatusOr<int64_t>(const Prompt& part)> append;
  // No part comes any more.
  std::function<void()> close;
};

// All methods are safe for concurrent use and do not wait for a model call, but for the
// destructor and WaitIdle.
class Engine {
 public:
  struct Options {
    // Behaviour.
    int32_t sessions = 64;       // per model, dropped ones at the end included
    int32_t max_queue = 256;     // waiting Generate calls
    int32_t max_tokens = 65536;  // most that one call generates
    int32_t max_prompt_tokens = 1 << 20;
    // Performance.
    int64_t state_bytes = int64_t{1} << 30;  // growing state per model, at most
    int64_t step_tokens = 256;               // tokens per step, over all sessions
    const Clock* clock = &Clock::Real();
    // Null: nothing is measured. Shared, because streams may outlive the engine.
    std::shared_ptr<EngineObserver> observer;
  };

  // Creates arenas and starts the thread. INVALID_ARGUMENT for bad options, no models
  // or duplicate names; RESOURCE_EXHAUSTED when state_bytes does not hold one session.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(std::vector<EngineModel> models,
                                                        const Options& options);
  // Ends running streams with UNAVAILABLE and joins the thread.
  virtual ~Engine() = default;

  virtual std::vector<ModelFacts> ListModels() const = 0;
  // Empty `name` means the only model.
  virtual absl::StatusOr<ModelFacts> GetModel(const std::string& name) const = 0;

  // Ids are 1 to 63 characters of a-z, 0-9 and '-', starting with a letter or digit.
  virtual absl::StatusOr<SessionFacts> CreateSession(const CreateSessionRequest& r) = 0;
  virtual absl::StatusOr<SessionFacts> GetSession(const std::string& id) const = 0;
  // page_size 0 = 100, lowered to 1000; a bad token or a negative size is
  // INVALID_ARGUMENT.
  virtual absl::StatusOr<SessionPage> ListSessions(
      int32_t page_size, const std::string& page_token) const = 0;
  // A running call on the session ends with ABORTED, SESSION_DELETED.
  virtual absl::Status DeleteSession(const std::string& id) = 0;

  // See text_calls.h. Empty `model` means the only one.
  virtual absl::StatusOr<TokenizedText> Tokenize(const std::string& model,
                                                 const std::string& text) const = 0;
  virtual absl::StatusOr<DetokenizedText> Detokenize(
      const std::string& model, const std::vector<int32_t>& tokens) const = 0;

  // Checks the request, encodes the prompt, and queues it. The stream ends with OK and
  // FinishFacts, or with the error that ended it. `on_ready`: see TokenStream.
  virtual absl::StatusOr<std::shared_ptr<TokenStream>> Generate(
      const GenerateRequest& request, std::function<void()> on_ready) = 0;
  // Tells the observer of a request that was refused before it came to Generate, which
  // tells of its own refusals.
  virtual void NoteRefused(const GenerateRequest& request,
                           const absl::Status& status) = 0;

  // Judges tokens under the model's unmodified distribution. With a session and without
  // `commit` it works on a copy of the session's state, which takes a place of its own.
  virtual absl::StatusOr<ScoreCall> Score(const ScoreRequest& request,
                                          std::function<void()> on_ready) = 0;

  // Runs an encoder. `on_done` is called once, on the engine's thread, or where the
  // returned function is called, which cancels what has not begun; it must not block.
  // Not called when an error is returned.
  virtual absl::StatusOr<std::function<void()>> Predict(PredictRequest request,
                                                        OnPredicted on_done) = 0;

  // From now on new sessions and calls are refused with UNAVAILABLE, DRAINING; queued
  // and running calls go on.
  virtual void Drain() = 0;
  // True when no call is queued or running; waits at most `timeout`.
  virtual bool WaitIdle(std::chrono::milliseconds timeout) = 0;

  virtual EngineStats Stats() const = 0;
};

}  // namespace mnemon
