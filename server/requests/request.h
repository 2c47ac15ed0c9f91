// SPDX-License-Identifier: MIT
// Requests to the engine and their results, as plain values, and its models.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/memory/byte_budget.h"
#include "model/decoder/decoder.h"
#include "model/decoder/introspection.h"
#include "model/sampling/generation_defaults.h"
#include "model/sampling/logprobs.h"
#include "model/sampling/sampler.h"
#include "model/text/chat_program.h"
#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"

namespace mnemon {

// Text, and how to treat characters that the vocabulary lacks.
struct LenientText {
  std::string text;
  UnknownCharacters unknown = UnknownCharacters::kAsModel;
};

// Messages for the model's chat template, for Generate only: see ParseConversation.
struct ConversationText {
  std::string json;
  UnknownCharacters unknown = UnknownCharacters::kAsModel;
};

using Prompt =
    std::variant<std::string, std::vector<int32_t>, LenientText, ConversationText>;

// Log-probabilities of generated tokens and of other candidates.
struct LogprobOptions {
  bool wanted = false;
  CandidateChoice candidates;  // at most 20 most likely and 100 ids

  bool operator==(const LogprobOptions&) const = default;
};

// What happens to a call with session and request_id when its stream is lost or
// cancelled.
enum class OnDisconnect {
  kPause,     // it pauses at the last delivered token until it is resumed
  kContinue,  // it runs to its end
};

struct GenerateRequest {
  std::string model;             // may be empty if one is loaded or a session is given
  std::string session;           // to continue; empty: a new state, dropped at the end
  Prompt prompt;                 // may be empty if the session has a history
  RequestedSampling sampling;    // its seed is ignored in favour of `seed`
  std::optional<uint64_t> seed;  // absent: drawn by the engine and reported
  // Use the session's sampling and seed in place of both, if it has any.
  bool session_sampling = false;
  // Tokens to generate; 0 computes the prompt only; absent: as many as the context
  // allows, at most Engine::Options::max_tokens.
  std::optional<int32_t> max_tokens;
  // Generation ends at the first of these, which is delivered and joins the history.
  std::vector<int32_t> stop_tokens;
  bool ignore_end = false;  // go on after the model's end tokens
  // Generation ends at the first of these in the text, which is left out of the text;
  // its tokens join the history. At most 16, of 1 to 256 bytes, UTF-8. Need a
  // tokenizer.
  std::vector<std::string> stop_strings;
  // Generation ends so long after admission; above 0.
  std::optional<std::chrono::milliseconds> time_limit;
  LogprobOptions logprobs;
  // Fields for each generated token, from the step that computed its logits: the step
  // of the token before it.
  IntrospectionFields introspection;
  // The call is refused if the load is too high to meet it.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  // A UUID or empty. A repetition with the newest id of the session gives the stream
  // from the beginning. Without a session and a seed it determines the seed, so that a
  // repetition gives the same tokens.
  std::string request_id;
  // With session and request_id: resumes the stream of that call after this absolute
  // index; -1: from its first generated token. Besides, only `model` and `deadline`
  // count.
  std::optional<int64_t> resume_after;
  std::optional<int64_t> expected_position;  // tokens of the history before the call
  OnDisconnect on_disconnect = OnDisconnect::kPause;
};

// Sampling parameters of a session, for calls without their own.
struct SessionSampling {
  RequestedSampling values;
  std::optional<uint64_t> seed;  // absent: drawn for each call

  bool operator==(const SessionSampling&) const = default;
};

// What a call asks for: made once from its request, then constant, and shared by the
// call, its session and the journal.
struct CallParams {
  std::string request_id;            // may be empty
  std::string request_hash;          // HashOf the request; empty: it cannot be resumed
  SessionSampling sampling;          // the one in use, with its seed
  int64_t max_tokens = 0;            // 0: compute the prompt only
  std::vector<int32_t> stop_tokens;  // sorted
  std::vector<int32_t> end_tokens;   // of the model, sorted; empty: it goes on
  std::vector<std::string> stop_strings;
  std::optional<std::chrono::milliseconds> time_limit;  // from each admission
  LogprobOptions logprobs;
  IntrospectionFields introspection;
  OnDisconnect on_disconnect = OnDisconnect::kPause;

  bool operator==(const CallParams&) const = default;
};

enum class FinishReason {
  kMaxTokens,
  kStopToken,
  kStopString,
  kContextLimit,
  kTimeLimit,
  kEndToken,
};

// Known at admission; sent with the first message.
struct StartFacts {
  int64_t first_index = 0;  // absolute index of the first prompt token of this call
  int64_t prompt_tokens = 0;
  uint64_t seed = 0;
  std::chrono::nanoseconds queue_time{};  // from arrival to admission
  int64_t resumed_tokens = 0;             // of the history, whose state was kept
};

// Tokens of a long prompt.
struct PromptProgress {
  int64_t computed = 0;
  int64_t of = 0;
};

// Known at the end; sent with the last message.
struct FinishFacts {
  FinishReason reason = FinishReason::kMaxTokens;
  std::optional<int32_t> stop_token;       // for kStopToken and kEndToken
  std::optional<std::string> stop_string;  // for kStopString
  int64_t generated_tokens = 0;
  // From admission to the last token of the prompt, and from there to the end.
  std::chrono::nanoseconds prompt_time{};
  std::chrono::nanoseconds generation_time{};

  bool operator==(const FinishFacts&) const = default;
};

// The tokens to score follow in parts.
struct ScoreRequest {
  std::string model;           // as in GenerateRequest
  std::string session;         // likewise
  CandidateChoice candidates;  // reported with each token; limits as above
  // The tokens join the session's history once all scores were delivered; the call
  // holds the session until then. Else others may use the session, which stays as it
  // is.
  bool commit = false;
  // A UUID or empty; only with a session and `commit`. The newest id of the session
  // scores the same tokens again, from where that call began; they do not join again.
  std::string request_id;
  std::optional<int64_t> expected_tokens;  // of the session's history
  std::optional<std::chrono::steady_clock::time_point> deadline;  // as above
};

// See Predictor::Input.
struct PredictRequest {
  std::string model;            // may be empty if one is loaded
  std::vector<int32_t> tokens;  // [B, T]
  int64_t batch = 0;            // B
  PredictMask mask = PredictMask::kConfig;
  std::vector<uint8_t> explicit_mask;
  AttentionMaps maps = AttentionMaps::kNone;
  std::optional<std::chrono::steady_clock::time_point> deadline;  // as above
};

struct TokenizedText {
  std::vector<int32_t> tokens;
  std::vector<int64_t> byte_offsets;  // of each token's first byte in the text
};

struct DetokenizedText {
  std::string raw;   // bytes of the tokens
  std::string text;  // the same with U+FFFD for invalid UTF-8
};

// kDetached: no call holds the session; the stream of its newest one can be resumed.
enum class SessionState { kIdle, kQueued, kRunning, kPaused, kDetached };

// What survives a crash. kNone: nothing. kTurn: all turns that ended, and what the
// kernel still wrote of the last one. kAlways: all that was acknowledged.
enum class Durability { kNone, kTurn, kAlways };

// Where a state is. kDevice: in an arena, ready to run. kHost: in host memory. kDisk:
// on a disk of this server.
enum class SessionTier { kDevice, kHost, kDisk };

struct CheckpointFacts {
  std::string id;
  int64_t position = 0;  // tokens in the history at that time
  std::chrono::system_clock::time_point create_time;
  int64_t size_bytes = 0;
};

// An absent member takes the default, or the value of the parent or the snapshot, when
// the session is created; it stays as it is when the session is updated.
struct SessionSettings {
  // The session expires `ttl` after its last use, or at `expire_time`, used or not. At
  // most one of the two; lowered to EngineOptions::max_session_ttl from now; default:
  // EngineOptions::session_ttl.
  std::optional<std::chrono::milliseconds> ttl;
  std::optional<std::chrono::system_clock::time_point> expire_time;
  std::optional<SessionSampling> sampling;
  std::optional<bool> paused;  // calls are refused
  // Above kNone only if the engine has a store. Default: EngineOptions::durability with
  // a store, else kNone.
  std::optional<Durability> durability;
};

struct CreateSessionRequest {
  std::string id;     // empty: the engine draws 128 random bits, in hexadecimal
  std::string model;  // as in GenerateRequest
  SessionSettings settings;
  std::string request_id;  // a UUID or empty; repeated: the session, while it exists
  // For a session of one conversation, which deletes it: it is not listed, and is kept
  // between turns for longer than a caller may be idle, whatever `settings` say.
  bool hidden = false;
};

struct SessionFacts {
  std::string id;
  std::string model;
  SessionState state = SessionState::kIdle;
  int64_t position = 0;          // tokens in the history
  int64_t state_size_bytes = 0;  // held in the arena now
  std::chrono::system_clock::time_point create_time;
  std::chrono::system_clock::time_point last_use_time;
  std::optional<std::chrono::system_clock::time_point> expire_time;
  std::string etag;    // differs after every change
  std::string parent;  // id of the session that it was forked from; may be gone
  bool rebuilt = false;
  bool paused = false;
  std::optional<SessionSampling> sampling;
  Durability durability = Durability::kNone;
  SessionTier tier = SessionTier::kHost;
  std::string model_id;
  std::string numerics_id;
  std::vector<CheckpointFacts> checkpoints;  // oldest first
};

struct UpdateSessionRequest {
  std::string session;
  std::string etag;  // not empty: must be the present one
  SessionSettings settings;
  // Settings that return to their default; they must be absent above.
  bool clear_expiration = false;
  bool clear_sampling = false;
  bool clear_durability = false;
};

struct ForkSessionRequest {
  std::string session;  // the parent
  std::string id;       // as in CreateSessionRequest, as the next ones
  SessionSettings settings;
  // Tokens of the history to take over; absent: all, but while a call runs on the
  // session only those up to the last delivered one.
  std::optional<int64_t> position;
  std::string request_id;
};

struct RewindSessionRequest {
  std::string session;
  std::variant<int64_t, std::string> target;  // tokens to keep, or id of a checkpoint
  std::string etag;                           // not empty: must be the present one
};

struct CheckpointSessionRequest {
  std::string session;
  std::string id;          // empty: the engine draws one
  std::string request_id;  // a UUID or empty; a repetition returns the same checkpoint
};

struct ReadHistoryRequest {
  std::string session;
  std::optional<int64_t> first;  // absent: the newest tokens are returned
  int32_t tokens = 0;            // at most; 0 = 1000, lowered to 4096
};

struct HistoryPart {
  int64_t first = 0;  // index of tokens[0]
  std::vector<int32_t> tokens;
  int64_t size = 0;  // tokens in the whole history
  // With a tokenizer: the text, with U+FFFD for invalid UTF-8, and for each token the
  // offset of the first character that it completes.
  std::string text;
  std::vector<int64_t> byte_offsets;
};

struct ExportedSession {
  SessionFacts facts;
  std::string snapshot;  // docs/snapshot_format.md
  // For the snapshot and its place among transfers: kept as long as the snapshot.
  ByteCharge charge;
  std::shared_ptr<void> transfer;
};

struct ImportSessionRequest {
  std::string id;     // as in CreateSessionRequest
  std::string model;  // as in CreateSessionRequest
  SessionSettings settings;
  std::string request_id;
  std::string snapshot;
};

struct VerifySessionRequest {
  std::string session;
  bool replay = false;  // recompute the history and compare all numbers
};

struct VerifiedSession {
  bool stored_form_valid = false;    // complete, finite, of the right lengths
  std::optional<bool> replay_equal;  // with `replay`
  int64_t position = 0;              // tokens in the history
  int64_t state_size_bytes = 0;      // compared
  std::string first_difference;      // the first state entry that differs
};

struct ListSessionsRequest {
  int32_t page_size = 0;   // 0 = 100, lowered to 1000
  std::string page_token;  // SessionPage::next_page_token of the page before
  std::string filter;      // see session_filter.h
  std::string order_by;    // see session_order.h
};

struct SessionPage {
  std::vector<SessionFacts> sessions;  // in the requested order
  std::string next_page_token;         // empty: the end
};

struct ModelFacts {
  std::string name;
  std::string model_id;
  std::string numerics_id;
  std::string architecture;
  std::string config_json;
  int64_t vocab = 0;
  std::optional<int64_t> context_limit;  // tokens of a session; absent: no limit
  bool has_tokenizer = false;
  int64_t parameters = 0;
  int64_t state_bytes_per_session = 0;  // at the context limit, or constant
  std::string precision = "fp32";       // of the weights that steps read
  std::string kernels;                  // instruction set or device, such as "avx2"
  bool generates = false;               // else it predicts
  IntrospectionFields introspection;    // available for its tokens
  ChatTemplate chat_template;
  std::shared_ptr<const ChatProgram> chat_program;  // both as in ServedModel
  absl::Status no_chat_program;
  GenerationDefaults generation;

  // Whether the model's checkpoint has one, supported or not.
  bool has_chat_template() const {
    return chat_program != nullptr || !no_chat_program.ok() ||
           chat_template != ChatTemplate{};
  }
};

// If several models are loaded, a call that names none goes to the one of this name.
inline constexpr std::string_view kDefaultModel = "default";

// A loaded model: either a decoder, which has sessions, or a predictor. The pointees
// outlive the engine; `tokenizer`, which may be null, also the streams of its calls.
struct EngineModel {
  ModelFacts facts;
  Decoder* decoder = nullptr;
  Predictor* predictor = nullptr;
  const Tokenizer* tokenizer = nullptr;
};

}  // namespace mnemon
