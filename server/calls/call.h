// SPDX-License-Identifier: MIT
// A Generate or Score call, from its admission check to its end.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/memory/byte_budget.h"
#include "base/utf8.h"
#include "model/sampling/penalty_counts.h"
#include "model/sampling/sampling_params.h"
#include "model/text/stop_text.h"
#include "server/admission/admission_queue.h"
#include "server/requests/call_params.h"
#include "server/requests/request.h"
#include "server/sessions/call_record.h"
#include "server/sessions/session.h"
#include "server/streams/token_stream.h"

namespace mnemon {

class ConversationPrompt;

// Finds stop strings in the text of generated tokens.
class StopMatcher {
 public:
  // `tokenizer` outlives it. REQUIRES: no string is empty.
  StopMatcher(const Tokenizer& tokenizer, const std::vector<std::string>& strings)
      : tokenizer_(tokenizer), stop_(strings) {}
  // The string that this token completes.
  const std::optional<std::string>& Push(int32_t token) {
    if (!tokenizer_.special(token)) {
      stop_.Push(utf8_.Push(tokenizer_.TokenBytes(token)));
    }
    return stop_.found();
  }

 private:
  const Tokenizer& tokenizer_;
  Utf8Stream utf8_;
  StopText stop_;
};

// Tokens to score, with the memory that they take in the queue.
struct InputPiece {
  std::vector<int32_t> tokens;
  ByteCharge charge;
};

// The part of a call that scores tokens instead of generating them. Unless stated
// otherwise guarded by the runner's mutex while the call waits for a permit, then owned
// by the model runner.
struct Scoring {
  // Constant: the session whose state the call's own one starts with, and the version
  // that its history then had; null for a fresh state.
  std::shared_ptr<Session> source;
  uint64_t source_version = 0;
  // Constant: the call holds the source, which becomes what its own session is when all
  // scores were delivered.
  bool commit = false;

  // Tokens of all parts that were sent, and, once no part follows, of all that come.
  // Written under the runner's mutex.
  int64_t sent = 0;
  std::atomic<int64_t> input_end = -1;

  int64_t received = 0;  // tokens of parts that the runner has
  // Of them, those that are no part of the history yet, in pieces; their number.
  std::list<InputPiece> input;
  int64_t input_tokens = 0;
  int64_t first = 0;  // index of the first token that is scored
  int64_t next = 0;   // and of the one to score next

  // Takes the tokens of a part, in pieces. By the runner's thread, or, while the call
  // waits for a permit, under the runner's mutex.
  void Receive(std::list<InputPiece>& pieces, int64_t tokens) {
    received += tokens;
    input_tokens += tokens;
    input.splice(input.end(), pieces);
  }
  bool closed() const { return input_end.load(std::memory_order_acquire) >= 0; }
  // Whether all that the caller sends has joined the history.
  bool all_taken() const {
    return input.empty() && input_end.load(std::memory_order_acquire) == received;
  }
};

// What one call that can be resumed, or resumes another one, needs for that.
struct CallResume {
  // What the session remembers of the call while it runs, and, where it is rolled back,
  // the same with the tokens of its prompt; null if it cannot be resumed.
  std::shared_ptr<CallRecord> record;
  std::shared_ptr<ChargedRecord> undone;
  // It goes on with the newest call of its session, after this index; then its number
  // among those that do (SessionDirectory::BeginResume).
  std::optional<int64_t> after;
  uint64_t number = 0;
  // Then the prompt is part of the history, which is cut to so many tokens first.
  std::optional<int64_t> at;
};

// How far a call has come. Owned by the runner.
struct GenerationProgress {
  using Time = std::chrono::steady_clock::time_point;

  Time admission;
  std::optional<Time> prompt_done;
  int64_t base = 0;        // tokens of the history before this call
  int64_t prompt_end = 0;  // and with its prompt
  int64_t least = 0;       // that a cut leaves at least, but for rolling back
  int64_t generated = 0;
};

// What the steps of a runner know of a call. Owned by the runner.
struct CallSteps {
  using Time = std::chrono::steady_clock::time_point;

  // What the steps under way do for it: how many it takes part in, the tokens that they
  // compute, and the tokens or scores that they will give. Kept by the stepper.
  struct UnderWay {
    int32_t steps = 0;
    int64_t tokens = 0;
    int64_t results = 0;
  };
  UnderWay under_way;
  // Until this many tokens are computed its chunks are stepped alone, because a step
  // that it shared failed.
  int64_t alone_until = 0;
  bool draws = false;    // the decoder draws for its slot
  bool starved = false;  // it found no free block in the last plan
  // The round in which its state made room for others; it waits until its whole history
  // fits again.
  std::optional<Time> preempted_at;
  int64_t prefill_served = -1;  // prompt tokens, for taking turns; -1: no turn yet
  int64_t computed_tokens = 0;  // of AdmissionTicket::expected
  PenaltyCounts penalties;      // of the history up to the last sampled token
  ByteCharge penalties_charge;  // exactly their memory
  std::optional<StopMatcher> stop_matcher;  // absent without stop strings
};

// How the stream of a call is read, and how it ends. Owned by the runner.
struct CallDelivery {
  using Time = std::chrono::steady_clock::time_point;
  struct Ending {
    absl::Status status;
    std::optional<FinishFacts> facts;
  };

  // When the call began to wait for its caller to read or to send; and, of a delivering
  // call, when that was checked last, and the tokens delivered by then. By the clock of
  // idle callers.
  std::optional<Time> stalled_since;
  int64_t delivered_then = 0;
  bool unread = false;  // which of the runner's lists of delivering calls it is on
  // How its stream ends with the next Publish.
  std::optional<Ending> ending;
  // How it ends once no step that it takes part in is under way; what these give it is
  // dropped.
  std::optional<Ending> end_later;
  // What the source of a scoring call was before the call joined it.
  std::optional<SessionBefore> before;
  // Memory of the session's history that a call which was not taken leaves, for the
  // thread that destroys the call.
  TokenHistory::Pieces unused;
};

// Shared by the runner and the callbacks of the call's stream, which may come at any
// time. Its ticket, `at` and `consumed_node` are guarded by the runner's mutex until it
// has a permit; then the runner owns them.
struct Call : DestroyedLater, std::enable_shared_from_this<Call>, AdmissionTicket {
  using Time = std::chrono::steady_clock::time_point;
  enum class Phase {
    kWaiting,     // for a permit, or for the runner to admit it
    kRunning,     // takes part in steps
    kDelivering,  // computed all; its consumer has not taken all
    kOver,
  };

  // Constant once it is queued.
  std::shared_ptr<Session> session;
  std::shared_ptr<TokenStream> stream;
  std::shared_ptr<const CallParams> params;  // not null
  SamplingParams sampling;                   // of params, rounded
  int64_t prompt_tokens = 0;                 // staged in the session's history
  // The prompt was given as text: a history that begins with it begins as texts do.
  bool text_prompt = false;
  // A prompt that is a conversation, whose tokens depend on the history; else null.
  std::shared_ptr<const ConversationPrompt> conversation;
  CallResume resume;
  std::optional<int64_t> expected_position;  // of the history before the call
  Time arrival;
  Time idle_arrival;  // the same by the clock of idle callers
  // The call has no named session, and its state is kept when it ends with OK, pinned
  // (StateAccess).
  bool keeps_state = false;

  // Its place in the list of calls that it is on, from the queue to its end: it moves
  // from list to list, which needs no memory.
  std::list<std::shared_ptr<Call>>::iterator at;
  // For the runner's list of calls whose consumers ended.
  std::list<std::shared_ptr<Call>> consumed_node{1};

  // Set by the runner before the end is visible: whoever clears it, the consumer that
  // takes the end or the runner, releases the session.
  std::atomic<bool> release_on_end = false;
  // The call resumes another one, and is not queued yet: whoever sets it gives its
  // stream the end, the call because that other has ended, or the runner for a newer
  // resume.
  std::atomic<bool> settled = false;

  // Owned by the model runner from Enqueue on.
  Phase phase = Phase::kWaiting;
  std::optional<Scoring> scoring;
  GenerationProgress progress;
  CallSteps steps;
  CallDelivery delivery;
  // It goes on when its stream is lost, until another call takes its session.
  bool goes_on = false;
  bool taken_over = false;  // by a call that resumes it

  // Whether it has pushed a token or a score.
  bool gave() const {
    if (resume.at) return true;  // a call before it has
    return scoring ? scoring->next > scoring->first : progress.generated > 0;
  }
  // Its consumer has said that it is to end.
  bool ended_by_consumer() const {
    return stream->cancelled() && stream->cancel_kind() == CancelKind::kEnd;
  }
  // It goes on, and has no consumer.
  bool runs_on() const {
    return goes_on && stream->cancelled() && !ended_by_consumer();
  }
  // Its consumer has cancelled it, or was given up, and so it ends.
  bool cancelled() const { return stream->cancelled() && (!runs_on() || taken_over); }
  bool stateless() const { return session->id.empty(); }
  // A score call that changes its source.
  bool commits() const { return scoring && scoring->commit; }
  // It holds no named session.
  bool nameless() const { return stateless() && !commits(); }
  // The named session that it holds; null for none.
  Session* holds() const {
    if (commits()) return scoring->source.get();
    return stateless() ? nullptr : session.get();
  }
  // Of a score call, what it has pushed was taken.
  bool all_delivered() const {
    return stream->delivered() == scoring->next - scoring->first;
  }
  // Of the history, for want of a state.
  int64_t tokens_to_compute_again() const {
    // A call that only scores copies the state of its source.
    const Session& holds = scoring && scoring->source ? *scoring->source : *session;
    const bool there =
        holds.in_runner.state_bytes > 0 || holds.in_runner.image_bytes > 0;
    return there ? 0 : session->history.size();
  }
  // REQUIRES: admitted.
  std::optional<Time> time_up() const {
    if (!params->time_limit) return std::nullopt;
    return progress.admission + *params->time_limit;
  }
  // Tokens of the history up to the last delivered one. REQUIRES: there is one.
  int64_t delivered_size() const {
    return (scoring ? scoring->first : progress.prompt_end) + stream->delivered();
  }
  // Tokens of the history that stay when the call is cut.
  int64_t cut_size() const {
    return stream->delivered() > 0 ? std::max(progress.least, delivered_size())
                                   : progress.least;
  }
  // Whether a cut leaves the session as it was before the call.
  bool rolls_back() const {
    return stream->delivered() == 0 &&
           !(resume.at && progress.least >= progress.prompt_end);
  }
  // Whether one keeps all: of a call that goes on, and of one that is resumed and has
  // more to generate. The record tells another call where to cut.
  bool cut_keeps_all() const {
    if (!goes_on || ended_by_consumer()) {
      return taken_over && !rolls_back() && phase == Phase::kRunning;
    }
    return gave() || phase == Phase::kDelivering;
  }
  // Tokens of the history that no cut can take away any more; before the first token
  // was delivered only rolling back goes further. Where the call runs without a
  // consumer, a cut may cost the state.
  int64_t kept() const {
    return stateless() || runs_on() ? session->history.size()
                                    : std::max(progress.least, delivered_size());
  }
  // How the call ends with the token at `index`, the newest of those it has generated,
  // which completes `stop_string`; absent: it goes on.
  std::optional<FinishFacts> EndWith(int32_t token, int64_t index,
                                     const std::optional<std::string>& stop_string,
                                     int64_t context_limit) const {
    FinishFacts facts{.generated_tokens = progress.generated};
    if (std::binary_search(params->stop_tokens.begin(), params->stop_tokens.end(),
                           token)) {
      facts.reason = FinishReason::kStopToken;
      facts.stop_token = token;
    } else if (std::binary_search(params->end_tokens.begin(), params->end_tokens.end(),
                                  token)) {
      facts.reason = FinishReason::kEndToken;
      facts.stop_token = token;
    } else if (stop_string) {
      facts.reason = FinishReason::kStopString;
      facts.stop_string = stop_string;
    } else if (progress.generated >= params->max_tokens) {
      facts.reason = FinishReason::kMaxTokens;
    } else if (index >= context_limit) {
      facts.reason = FinishReason::kContextLimit;
    } else {
      return std::nullopt;
    }
    return facts;
  }
  // Tokens of the history that this call computes: without sampling the last one stays.
  int64_t to_compute() const {
    const int64_t tokens = session->history.size();
    return params->max_tokens == 0 ? tokens - 1 : tokens;
  }
};

}  // namespace mnemon
