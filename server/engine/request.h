// SPDX-License-Identifier: MIT
// Requests to the engine and their results, as plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/byte_budget.h"
#include "model/decoder/decoder.h"
#include "model/decoder/introspection.h"
#include "model/sampling/generation_defaults.h"
#include "model/sampling/logprobs.h"
#include "model/sampling/sampler.h"
#include "model/text/chat_program.h"
#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"

namespace mnemon {

// Text with a way of its own to treat characters that the vocabulary lacks.
struct LenientText {
  std::string text;
  UnknownCharacters unknown = UnknownCharacters::kAsModel;
};

// Messages in the model's chat template, as JSON: see ParseConversation. Of Generate.
struct ConversationText {
  std::string json;
  UnknownCharacters unknown = UnknownCharacters::kAsModel;
};

// Text, token ids as they are, or messages.
using Prompt =
    std::variant<std::string, std::vector<int32_t>, LenientText, ConversationText>;

// Log-probabilities of generated tokens, and of candidates beside them.
struct LogprobOptions {
  bool wanted = false;
  CandidateChoice candidates;  // at most 20 most likely ones and 100 ids

  bool operator==(const LogprobOptions&) const = default;
};

// What a call with session and request_id does when its stream is lost or cancelled.
enum class OnDisconnect {
  kPause,     // it waits for a resume, at the last delivered token
  kContinue,  // it goes on to its end
};

struct GenerateRequest {
  // Name of a loaded model; may be empty when one is loaded or a session is given.
  std::string model;
  // Id of a session whose memory continues; empty = a session dropped at the end.
  std::string session;
  // What is computed first. May be empty when the session already has a history.
  Prompt prompt;
  RequestedSampling sampling;    // its seed is ignored in favour of `seed`
  std::optional<uint64_t> seed;  // absent: drawn by the engine and reported
  // In place of both, those of the session, where it has any.
  bool session_sampling = false;
  // Tokens to generate; 0 computes the prompt only; absent: as many as the context
  // allows, at most Engine::Options::max_tokens.
  std::optional<int32_t> max_tokens;
  // Generation ends with the first of these; it is delivered and part of the history.
  std::vector<int32_t> stop_tokens;
  // And with the first of the model's own end tokens, unless they are ignored.
  bool ignore_end = false;
  // And with the first of these in the generated text; it is no part of the text, its
  // tokens are part of the history. At most 16, of 1 to 256 bytes, UTF-8. Need a
  // tokenizer.
  std::vector<std::string> stop_strings;
  // And when so much time has passed since admission; above 0.
  std::optional<std::chrono::milliseconds> time_limit;
  LogprobOptions logprobs;
  // Of each generated token: what the step that computed its logits did, which is the
  // step of the token before it.
  IntrospectionFields introspection;
  // The caller's deadline: a call that cannot end before it at the present load is
  // refused.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  // A UUID or empty. The same request again with the newest id of its session gives its
  // stream from the beginning. Without a session and a seed, it decides the seed, so
  // that a repetition gives the same.
  std::string request_id;
  // With session and request_id: the stream of that call goes on behind this absolute
  // index, -1: from its first generated token; what is not above or `deadline` is
  // ignored.
  std::optional<int64_t> resume_after;
  // Tokens that the history must have before the call.
  std::optional<int64_t> expected_position;
  OnDisconnect on_disconnect = OnDisconnect::kPause;
};

enum class FinishReason {
  kMaxTokens,
  kStopToken,
  kStopString,
  kContextLimit,
  kTimeLimit,
  kEndToken,
};

// Facts known at admission: go out with the first message.
struct StartFacts {
  int64_t first_index = 0;  // absolute index of the first prompt token of this call
  int64_t prompt_tokens = 0;
  uint64_t seed = 0;
  std::chrono::nanoseconds queue_time{};  // from the call to its admission
  int64_t resumed_tokens = 0;             // of the history; their state was kept
};

// Of a long prompt, while it is computed.
struct PromptProgress {
  int64_t computed = 0;  // tokens of the prompt
  int64_t of = 0;
};

// Facts known at the end: go out with the last message.
struct FinishFacts {
  FinishReason reason = FinishReason::kMaxTokens;
  std::optional<int32_t> stop_token;       // for kStopToken and kEndToken
  std::optional<std::string> stop_string;  // for kStopString
  int64_t generated_tokens = 0;
  // From admission to the last token of the prompt, and from then to the end.
  std::chrono::nanoseconds prompt_time{};
  std::chrono::nanoseconds generation_time{};

  bool operator==(const FinishFacts&) const = default;
};

// What Engine::Score is to score: the tokens of all parts, in their order.
struct ScoreRequest {
  std::string model;           // as in GenerateRequest
  std::string session;         // likewise
  CandidateChoice candidates;  // reported beside each token; limits as above
  // The parts join the session's history at the end, when all scores were delivered, or
  // none does; the session is held meanwhile. Else it is left as it was, and may be
  // used by others.
  bool commit = false;
  // A UUID or empty; only with a session and `commit`. That of the session's newest
  // call is scored again, from where that began, and joins nothing.
  std::string request_id;
  // Tokens that the session's history must have.
  std::optional<int64_t> expected_tokens;
  std::optional<std::chrono::steady_clock::time_point> deadline;  // as above
};

// What Engine::Predict is to do: see Predictor::Input.
struct PredictRequest {
  std::string model;            // may be empty when one is loaded
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
  std::string raw;   // the bytes of the tokens
  std::string text;  // the same with U+FFFD for what is not UTF-8
};

// Detached: at rest, and the stream of its newest call can be resumed.
enum class SessionState { kIdle, kQueued, kRunning, kPaused, kDetached };

// What of a session survives a crash: nothing; all turns that ended, and what the
// kernel still wrote of the last one; all that was acknowledged.
enum class Durability { kNone, kTurn, kAlways };

// Where the state of a session lies: in an arena, ready to run; in memory of the host;
// on a disk of this server; in a store that several servers share.
enum class SessionTier { kDevice, kHost, kDisk, kShared };

// A state that a session can be rewound to.
struct CheckpointFacts {
  std::string id;
  int64_t position = 0;  // tokens in the history at that time
  std::chrono::system_clock::time_point create_time;
  int64_t size_bytes = 0;
  bool automatic = false;
};

// Sampling of calls that bring none of their own.
struct SessionSampling {
  RequestedSampling values;
  std::optional<uint64_t> seed;  // absent: drawn for each call

  bool operator==(const SessionSampling&) const = default;
};

// What a session can be given when it is made, and later. What is absent is the
// default, that of the parent or of the snapshot, or stays as it is.
struct SessionSettings {
  // When the session is dropped: so long after its last use, or at this time, used or
  // not; lowered to EngineOptions::max_session_ttl from now on. At most one of the two;
  // default: EngineOptions::session_ttl.
  std::optional<std::chrono::milliseconds> ttl;
  std::optional<std::chrono::system_clock::time_point> expire_time;
  std::optional<SessionSampling> sampling;
  std::optional<bool> paused;  // set aside: calls are refused
  // Above kNone only where the engine has a store; default: EngineOptions::durability
  // there, else kNone.
  std::optional<Durability> durability;
};

struct CreateSessionRequest {
  std::string id;     // empty: the engine draws 128 random bits, in hexadecimal
  std::string model;  // as in GenerateRequest
  SessionSettings settings;
  // A UUID or empty. While the session that it created exists, a repetition of the
  // request returns that session.
  std::string request_id;
  // Of one conversation, which deletes it: not listed, and kept between two turns for
  // longer than a caller may be idle, whatever `settings` say.
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
  // Of what is absent above, what goes back to its default.
  bool clear_expiration = false;
  bool clear_sampling = false;
  bool clear_durability = false;
};

struct ForkSessionRequest {
  std::string session;  // the parent
  // As in CreateSessionRequest.
  std::string id;
  SessionSettings settings;
  // Tokens of the history to take over; absent: all, of a session on which a call runs
  // those up to the last delivered one.
  std::optional<int64_t> position;
  std::string request_id;
};

struct RewindSessionRequest {
  std::string session;
  // Tokens of the history that stay, or a checkpoint.
  std::variant<int64_t, std::string> target;
  std::string etag;  // not empty: must be the present one
};

struct CheckpointSessionRequest {
  std::string session;
  std::string id;          // empty: the engine draws one
  std::string request_id;  // a UUID or empty: a repetition returns the same checkpoint
};

struct ReadHistoryRequest {
  std::string session;
  std::optional<int64_t> first;  // absent: so that the newest tokens are returned
  int32_t tokens = 0;            // at most; 0 = 1000, lowered to 4096
};

// A part of a history.
struct HistoryPart {
  int64_t first = 0;  // index of tokens[0]
  std::vector<int32_t> tokens;
  int64_t size = 0;  // tokens in the whole history
  // With a tokenizer: the text, with U+FFFD for what is not UTF-8, and for each token
  // where in it the first character that it completes begins.
  std::string text;
  std::vector<int64_t> byte_offsets;
};

struct ExportedSession {
  SessionFacts facts;
  std::string snapshot;  // docs/snapshot_format.md
  // Of the snapshot, and of its place among transfers: to be held as long as it is.
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
  bool replay = false;  // computes the history again and compares all numbers
};

struct VerifiedSession {
  bool stored_form_valid = false;    // whole, finite, of the right lengths
  std::optional<bool> replay_equal;  // with `replay`
  int64_t position = 0;              // tokens in the history
  int64_t state_size_bytes = 0;      // compared
  std::string first_difference;      // the state entry that differs first
};

struct ListSessionsRequest {
  int32_t page_size = 0;   // 0 = 100, lowered to 1000
  std::string page_token;  // SessionPage::next_page_token of the page before
  std::string filter;      // see session_filter.h
  std::string order_by;    // see session_order.h
};

struct SessionPage {
  std::vector<SessionFacts> sessions;  // in the order that was asked for
  std::string next_page_token;         // empty: the end
};

struct ModelFacts {
  std::string name;
  std::string model_id;
  std::string numerics_id;
  std::string architecture;
  std::string config_json;
  int64_t vocab = 0;
  // Tokens a session can compute; absent: no limit.
  std::optional<int64_t> context_limit;
  bool has_tokenizer = false;
  int64_t parameters = 0;
  int64_t state_bytes_per_session = 0;  // at the context limit, or constant size
  std::string precision = "fp32";       // of the weights that steps read
  std::string kernels;                  // instruction set or device, as "avx2"
  bool generates = false;               // else it predicts
  IntrospectionFields introspection;    // that its tokens have
  ChatTemplate chat_template;
  // As of ServedModel.
  std::shared_ptr<const ChatProgram> chat_program;
  absl::Status no_chat_program;
  GenerationDefaults generation;

  // The checkpoint brings one, supported or not.
  bool has_chat_template() const {
    return chat_program != nullptr || !no_chat_program.ok() ||
           chat_template != ChatTemplate{};
  }
};

}  // namespace mnemon
