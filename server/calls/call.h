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
#include "model/sampling/penalty_counts.h"
#include "model/sampling/sampling_params.h"
#include "server/admission/admission_queue.h"
#include "server/requests/request.h"
#include "server/sessions/call_record.h"
#include "server/sessions/session.h"
#include "server/streams/token_stream.h"

namespace mnemon {

class ConversationPrompt;
using CallTime = std::chrono::steady_clock::time_point;

// Tokens to score, with the memory that they take in the queue.
struct InputPiece {
  std::vector<int32_t> tokens;
  ByteCharge charge;
};

// The part of a call that scores tokens instead of generating them. Unless stated
// otherwise guarded by the runner's mutex while the call waits for a permit, then owned
// by the runner.
struct Scoring {
  // Constant: the session whose state the call's own one starts with, and the version
  // of its history then; null for a fresh state.
  std::shared_ptr<Session> source;
  uint64_t source_version = 0;
  // Constant: the call holds the source, which becomes what its own session is when all
  // scores were delivered.
  bool commit = false;

  // Tokens that were sent, and, once no part follows, of all parts; written under the
  // runner's mutex.
  int64_t sent = 0;
  std::atomic<int64_t> input_end = -1;

  int64_t received = 0;         // tokens that the runner has
  std::list<InputPiece> input;  // those that are no part of the history yet
  int64_t input_tokens = 0;     // their number
  int64_t first = 0;            // index of the first token that is scored
  int64_t next = 0;             // and of the one to score next

  void Receive(std::list<InputPiece>& pieces, int64_t tokens) {
    received += tokens;
    input_tokens += tokens;
    input.splice(input.end(), pieces);
  }
  bool closed() const { return input_end >= 0; }
  // Whether all that the caller sends has joined the history.
  bool all_taken() const { return input.empty() && input_end == received; }
};

// For a call that can be resumed, or resumes another one.
struct CallResume {
  // What the session remembers of the call while it runs, and, where it is rolled back,
  // the same with the tokens of its prompt; null if it cannot be resumed.
  std::shared_ptr<CallRecord> record;
  std::shared_ptr<ChargedRecord> undone;
  // It resumes the newest call of its session, after this index.
  std::optional<int64_t> after;
  uint64_t number = 0;  // then: of SessionCalls::BeginResume
  // Then the prompt is part of the history, which is cut to so many tokens first.
  std::optional<int64_t> at;
};

// How far a call has come. Owned by the runner.
struct GenerationProgress {
  CallTime admission;
  std::optional<CallTime> prompt_done;
  int64_t base = 0;        // tokens of the history before this call
  int64_t prompt_end = 0;  // and with its prompt
  int64_t least = 0;       // that a cut leaves at least, but for rolling back
  int64_t generated = 0;
};

// What the steps of a runner know of a call. Owned by the runner.
struct CallSteps {
  // How many steps under way it takes part in, the tokens that they compute, and the
  // tokens or scores that they will give. Kept by the stepper.
  struct UnderWay {
    int32_t steps = 0;
    int64_t tokens = 0;
    int64_t results = 0;
  };
  UnderWay under_way;
  // Its chunks are stepped alone until so many tokens are computed, because a step that
  // it shared failed.
  int64_t alone_until = 0;
  bool draws = false;    // the decoder draws for its slot
  bool starved = false;  // it found no free block in the last plan
  // The round in which it was preempted; it waits until its whole history fits again.
  std::optional<CallTime> preempted_at;
  int64_t prefill_served = -1;  // prompt tokens, for taking turns; -1: no turn yet
  int64_t computed_tokens = 0;  // of AdmissionTicket::expected
  PenaltyCounts penalties;      // of the history up to the last sampled token
  ByteCharge penalties_charge;  // exactly their memory
};

// How the stream of a call is read, and how it ends. Owned by the runner.
struct CallDelivery {
  struct Ending {
    absl::Status status;
    std::optional<FinishFacts> facts;
  };

  // When the call began to wait for its caller to read or to send; for a delivering
  // call, when that was checked last, and the tokens delivered by then. By the clock of
  // idle callers.
  std::optional<CallTime> stalled_since;
  int64_t delivered_then = 0;
  bool unread = false;  // which of the runner's lists of delivering calls it is on
  std::optional<Ending> ending;  // with the next Publish
  // Once no step that it takes part in is under way; what these give it is dropped.
  std::optional<Ending> end_later;
  // What the source of a scoring call was before the call joined it.
  std::optional<SessionBefore> before;
  // Memory of the session's history that a call which was not taken leaves, for the
  // thread that destroys the call.
  TokenHistory::Pieces unused;
};

// Shared by the runner and the callbacks of the call's stream. Its ticket, `at` and
// `consumed_node` are guarded by the runner's mutex until it has a permit; then the
// runner owns them.
struct Call : DestroyedLater, std::enable_shared_from_this<Call>, AdmissionTicket {
  using Time = CallTime;
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
  // A prompt whose tokens depend on the history; else null.
  std::shared_ptr<const ConversationPrompt> conversation;
  CallResume resume;
  std::optional<int64_t> expected_position;  // of the history before the call
  Time arrival;
  Time idle_arrival;  // the same by the clock of idle callers
  // The call has no named session, and its state is kept when it ends with OK, pinned
  // (RunnerStates).
  bool keeps_state = false;

  // Its place in the list of calls that it is on; to move from list to list needs no
  // memory.
  std::list<std::shared_ptr<Call>>::iterator at;
  // For the runner's list of calls whose consumers ended.
  std::list<std::shared_ptr<Call>> consumed_node{1};

  // Set by the runner before the end is visible: whoever clears it, the consumer that
  // takes the end or the runner, releases the session.
  std::atomic<bool> release_on_end = false;
  // For a call that resumes another one, before it is queued: whoever sets it gives the
  // stream its end, the call because the other has ended, or the runner for a newer
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

  // Whether it, or a call that it resumes, has pushed a token or a score.
  bool gave() const {
    if (resume.at) return true;
    return scoring ? scoring->next > scoring->first : progress.generated > 0;
  }
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
  // It scores, and changes its source.
  bool commits() const { return scoring && scoring->commit; }
  // It holds no named session.
  bool nameless() const { return stateless() && !commits(); }
  // The named session that it holds; null for none.
  Session* holds() const {
    if (commits()) return scoring->source.get();
    return stateless() ? nullptr : session.get();
  }
  // Whether all scores that it has pushed were taken.
  bool all_delivered() const {
    return stream->delivered() == scoring->next - scoring->first;
  }
  // Tokens of the history, if there is no state of them.
  int64_t tokens_to_compute_again() const {
    // A call that only scores copies the state of its source.
    const Session& holds = scoring && scoring->source ? *scoring->source : *session;
    return holds.in_runner.in_memory() ? 0 : session->history.size();
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
  // Whether a cut keeps all: the call goes on, or is resumed and has more to generate.
  // The record tells another call where to cut.
  bool cut_keeps_all() const {
    if (!goes_on || ended_by_consumer()) {
      return taken_over && !rolls_back() && phase == Phase::kRunning;
    }
    return gave() || phase == Phase::kDelivering;
  }
  // Tokens of the history that no cut takes away; before the first token was delivered
  // only rolling back goes further. Where the call runs without a consumer, a cut may
  // cost the state.
  int64_t kept() const {
    return stateless() || runs_on() ? session->history.size()
                                    : std::max(progress.least, delivered_size());
  }
  // How the call ends with the token at `index`, the newest of those its stream has
  // got; absent: it goes on.
  std::optional<FinishFacts> EndWith(int32_t token, int64_t index,
                                     int64_t context_limit) const {
    FinishFacts facts{.generated_tokens = progress.generated};
    if (std::ranges::binary_search(params->stop_tokens, token)) {
      facts.reason = FinishReason::kStopToken;
      facts.stop_token = token;
    } else if (std::ranges::binary_search(params->end_tokens, token)) {
      facts.reason = FinishReason::kEndToken;
      facts.stop_token = token;
    } else if (stream->stop_string()) {
      facts.reason = FinishReason::kStopString;
      facts.stop_string = stream->stop_string();
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
