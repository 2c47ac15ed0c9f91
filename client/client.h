// SPDX-License-Identifier: MIT
// A C++ client of a mnemon server, free of protobuf types.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/generate_options.h"
#include "client/retries.h"
#include "client/session.h"

namespace mnemon::client {

struct ClientOptions {
  // HOST[:PORT], or a URI of gRPC's name syntax; the port is 50051 unless it is given.
  std::string server = "127.0.0.1:50051";
  std::chrono::milliseconds connect_timeout{5000};
  // Limit for every call except Generate, Score and a verification with replay. For
  // ExportSession and ImportSession it limits the time in which the server neither
  // sends nor receives. Drain adds its grace.
  std::chrono::milliseconds call_timeout{30000};
  // Retries of calls when the connection to the server is lost: see Generate, and the
  // calls on sessions. A server that was never reached is not retried.
  RetryOptions retry;
};

struct TokenCandidate {
  int32_t token = 0;
  float logprob = 0;  // natural logarithm
};

struct TokenLogprobs {
  int64_t index = 0;  // absolute index in the session
  int32_t token = 0;
  float logprob = 0;  // natural logarithm
  std::vector<TokenCandidate> candidates;
};

// One message of a stream.
struct GenerateChunk {
  std::string text;
  std::vector<int32_t> tokens;
  int64_t first_index = 0;
  std::vector<TokenLogprobs> logprobs;  // one per token, if wanted
  // Set when the stream was lost and has been resumed: index of the last token before,
  // -1 if there was none. Such a message may have no tokens.
  std::optional<int64_t> resumed_after;
};

struct GenerateResult {
  std::string model;          // without "models/"
  std::string finish_reason;  // as in the proto, without prefix: "MAX_TOKENS"
  std::string stop_string;    // the string that ended it
  uint64_t seed = 0;
  int64_t resumed_tokens = 0;  // tokens of the session before the call
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  int64_t history_tokens = 0;             // tokens of the session at the end
  std::chrono::nanoseconds queue_time{};  // for admission, according to the server
  std::chrono::nanoseconds time_to_first_token{};
  std::chrono::nanoseconds total_time{};
  int64_t resumes = 0;  // how often the stream was lost and resumed
};

struct ScoreOptions {
  std::string model;         // may be empty if the server has one
  std::string session;       // empty: a fresh state
  bool commit = false;       // append the text to the session; else it is unchanged
  int32_t most_likely = 0;   // number of most likely tokens beside each, and
  std::vector<int32_t> ids;  // these
  std::string text;          // text to score, of any length; or
  std::vector<int32_t> tokens;
  UnknownCharacters unknown_characters = UnknownCharacters::kAsModel;
};

struct ScoreResult {
  int64_t tokens = 0;      // scored tokens
  double logprob_sum = 0;  // natural logarithm
};

enum class PredictMask { kConfig, kNone, kCausal, kExplicit };
enum class PredictMaps { kNone, kUsed, kNotebook };

// One pass of an encoder over B sequences of one length T.
struct PredictOptions {
  std::string model;  // may be empty if the server has one
  std::vector<std::vector<int32_t>> sequences;
  PredictMask mask = PredictMask::kConfig;
  // For kExplicit: [T, T] or [B, T, T], row-major; non-zero = takes part.
  std::vector<uint8_t> explicit_mask;
  PredictMaps maps = PredictMaps::kNone;
};

struct FloatArray {
  std::vector<int64_t> shape;
  std::vector<float> values;  // row-major
};

struct PredictResult {
  FloatArray logits;             // [B, T, V]
  std::vector<FloatArray> maps;  // per layer [B, H, T, T]
};

struct ModelSummary {
  std::string name;
  std::string architecture;
  std::string model_id;
  std::string numerics_id;
  std::string config_json;
  int64_t vocab = 0;  // token ids are 0 .. vocab - 1
  int64_t parameters = 0;
  std::optional<int64_t> context_limit;
  bool has_chat_template = false;
};

struct ServerLoad {
  int64_t running_calls = 0;
  int64_t queued_calls = 0;
  int64_t queue_capacity = 0;  // calls that may wait
  int64_t sessions = 0;
  int64_t session_capacity = 0;
  int64_t state_size_bytes = 0;
  int64_t state_capacity_bytes = 0;
  std::chrono::nanoseconds queue_time{};  // expected wait of a new call
  // Since the start of the server.
  int64_t computed_tokens = 0;
  int64_t generated_tokens = 0;
  bool draining = false;
};

// Safe for concurrent use. Errors are the server's statuses with their typed payload
// (base/error.h), decoded from the standard details; metadata "resource" is the
// resource named in ResourceInfo or PreconditionFailure.
class Client {
 public:
  static std::unique_ptr<Client> Connect(const ClientOptions& options);
  // "gRPC 1.51.1"
  static std::string LibraryVersion();
  virtual ~Client() = default;

  // Calls `on_chunk` for each message on the calling thread; if it returns false, the
  // call is cancelled and ends with CANCELLED. `on_chunk` must not throw. On a session
  // with options.resume.automatic, a call whose server is lost (UNAVAILABLE, or an
  // error with retry_after after the first message) is resumed as often and as long as
  // ClientOptions.retry allows: every token and every piece of text comes once and in
  // order. A final error then has the metadata "received_token_count". NOT_FOUND,
  // REQUEST_UNKNOWN: the server has forgotten the lost call.
  virtual absl::StatusOr<GenerateResult> Generate(
      const GenerateOptions& options,
      const std::function<bool(const GenerateChunk&)>& on_chunk) = 0;
  // The same for Score: sends the text in parts and passes on the scores as they
  // arrive.
  virtual absl::StatusOr<ScoreResult> Score(
      const ScoreOptions& options,
      const std::function<bool(const std::vector<TokenLogprobs>&)>& on_tokens) = 0;
  // Cancels the running calls of Generate, Score, ExportSession, ImportSession and
  // VerifySession, and all calls that wait for the connection; they end with CANCELLED.
  // Any thread. Other calls are short, and their effect would be unknown.
  virtual void CancelCalls() = 0;
  virtual absl::StatusOr<std::vector<int32_t>> Tokenize(const std::string& model,
                                                        const std::string& text) = 0;

  virtual absl::StatusOr<PredictResult> Predict(const PredictOptions& options) = 0;

  // Idempotent calls on sessions are retried while the server is away: Create, Fork and
  // Checkpoint; Import with a `rewind`; Update without an etag; Delete with
  // allow_missing; Get and List. For other calls, UNAVAILABLE leaves open whether they
  // were executed.
  virtual absl::StatusOr<Session> CreateSession(
      const CreateSessionOptions& options) = 0;
  // With the default ttl.
  absl::StatusOr<Session> CreateSession(const std::string& id,
                                        const std::string& model) {
    return CreateSession(CreateSessionOptions{.id = id, .model = model});
  }
  virtual absl::StatusOr<Session> GetSession(const std::string& id) = 0;
  virtual absl::StatusOr<SessionPage> ListSessionPage(
      const ListSessionsOptions& options) = 0;
  // All pages.
  absl::StatusOr<std::vector<Session>> ListSessions(const std::string& filter = "",
                                                    const std::string& order_by = "");
  virtual absl::StatusOr<Session> UpdateSession(
      const UpdateSessionOptions& options) = 0;
  virtual absl::Status DeleteSession(const DeleteSessionOptions& options) = 0;
  absl::Status DeleteSession(const std::string& id) {
    return DeleteSession(DeleteSessionOptions{.id = id});
  }
  virtual absl::StatusOr<Session> ForkSession(const ForkSessionOptions& options) = 0;
  virtual absl::StatusOr<Session> RewindSession(
      const RewindSessionOptions& options) = 0;
  virtual absl::StatusOr<SessionCheckpoint> CheckpointSession(
      const CheckpointSessionOptions& options) = 0;
  // Passes the parts of the snapshot to `sink` as they arrive, on the calling thread.
  // An error of `sink` cancels the call and is returned. DATA_LOSS unless the announced
  // number of bytes came.
  virtual absl::StatusOr<ExportedSession> ExportSession(const std::string& id,
                                                        const SnapshotSink& sink) = 0;
  // Reads the snapshot from `source`, on the calling thread. An error of `source`, or a
  // number of bytes other than options.size_bytes, cancels the call: no session is
  // created.
  virtual absl::StatusOr<Session> ImportSession(const ImportSessionOptions& options,
                                                const SnapshotSource& source) = 0;
  // A difference is not an error. With `replay` it takes as long as computing the
  // history.
  virtual absl::StatusOr<Verification> VerifySession(const std::string& id,
                                                     bool replay) = 0;
  virtual absl::StatusOr<std::vector<ModelSummary>> ListModels() = 0;
  // OK if `service` is SERVING, else UNAVAILABLE.
  virtual absl::Status CheckHealth(const std::string& service) = 0;
  virtual absl::StatusOr<ServerLoad> GetLoad() = 0;
  // Makes the server refuse new work permanently, and waits until running calls have
  // finished or `grace`, by default the server's own, has passed. Returns the number of
  // saved sessions.
  virtual absl::StatusOr<int64_t> Drain(
      std::optional<std::chrono::milliseconds> grace) = 0;
};

}  // namespace mnemon::client
